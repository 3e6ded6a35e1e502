"""A sweep in words: the table of the terminal and the page, and the sentences under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pagesim.sim.serving.run_table import seconds
from pagesim.sim.setting import counted
from pagesim.sim.stats import Interval
from pagesim.sim.summary import with_interval
from pagesim.sim.sweep.result import SweepResult
from pagesim.sim.sweep.summary import Line

NONE = "-"


def _time(value: Interval) -> str:
    return seconds(value.mean) + ("" if value.half is None else f" ± {seconds(value.half)}")


def _number(value: Interval) -> str:
    return f"{value.mean:,.0f}" + ("" if value.half is None else f" ± {value.half:,.0f}")


FIGURES: dict[str, tuple[str, Callable[[Interval], str]]] = {
    "refused_share": ("refused", with_interval),
    "steady_sequences": ("sequences at once", _number),
    "output_tokens_per_s": ("output tokens/s", _number),
    "goodput_per_s": ("goodput, req/s", _number),
    "ttft_s_p99": ("TTFT p99", _time),
    "tpot_s_p99": ("TPOT p99", _time),
    "preempted_share": ("preempted", with_interval),
    "prefix_hit_share": ("prompt tokens found", with_interval),
    "used": ("used", with_interval),
    "internal": ("internal", with_interval),
}


def shown_figures(result: SweepResult) -> list[str]:
    """The figures that some line has, of those that the table can show."""
    return [name for name in FIGURES if any(line.figures.get(name) is not None for line in result.lines)]


def head(result: SweepResult) -> list[str]:
    """Of each column of the table."""
    return [*map(option_words, result.varied), "allocator", *(FIGURES[name][0] for name in shown_figures(result))]


def table_rows(result: SweepResult) -> list[list[str]]:
    """A row for each line that came to something."""
    names = shown_figures(result)
    return [_row(line, result.varied, names) for line in result.lines if line.runs]


def _row(line: Line, options: Sequence[str], names: Sequence[str]) -> list[str]:
    cells = [(line.figures.get(name), FIGURES[name][1]) for name in names]
    said = [value_words(line.options[name]) for name in options]
    return [*said, str(line.allocator), *(NONE if value is None else text(value) for value, text in cells)]


def option_words(column: str) -> str:
    """block_size -> block size."""
    return column.removeprefix("num_").replace("_", " ")


def value_words(value: object) -> str:
    """Of an option, as it is written: a switch is on or off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return NONE if value is None else str(value)


def sentences(result: SweepResult) -> list[str]:
    """What was run, and what went wrong."""
    counts, seeds = result.counts, result.num_seeds
    run = f"{counted(result.variants, 'combination')} with {counted(seeds, 'seed')} each"
    told = [f"{run}: {counted(counts.run, 'point')} run, {counts.skipped:,} skipped that were done before."]
    wrong = [line for line in result.lines if line.error is not None]
    if wrong:
        first = wrong[0]
        at = ", ".join(f"{option_words(name)} {value_words(value)}" for name, value in first.options.items())
        told.append(
            f"{counted(len(wrong), 'line')} of {len(result.lines):,} went wrong for some seed, or all; the first "
            f"({at or 'the only one'}): {first.error}"
        )
    intervals = "± is half of the 95% interval over the seeds." if seeds > 1 else "One seed gives no interval."
    return [*told, intervals]
