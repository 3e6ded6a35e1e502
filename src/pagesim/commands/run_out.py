"""Carrying a run out: progress while it lasts, then the table or the JSON, and the files that were asked for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagesim.commands import reading
from pagesim.sim.config import RunConfig

if TYPE_CHECKING:
    from pagesim.sim.poolmap.page import PoolMap
    from pagesim.sim.poolmap.record import FirstLogs, MapOptions
    from pagesim.sim.result import RunResult
    from pagesim.sim.serving.log import ServingLog
    from pagesim.sim.serving.result import ServingResult
    from pagesim.sim.shown import Shown
    from pagesim.sim.trace import Trace

COLUMNS_AT_ONCE = 3  # allocators beside each other, at most
GAP = 2  # between columns


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where things go; None: nowhere."""

    as_json: bool
    report: Path | None
    out: Path | None
    steps: Path | None
    pool_map: MapOptions

    def check(self, trace: Path | None) -> None:
        """Raise UsageError if a file cannot be written, or one would take the place of another or of the trace: before
        an hour of work, not after."""
        from pagesim.sim.files import check_apart, check_writable
        from pagesim.sim.saved import FILE_NAME

        saved = None if self.out is None or not self.out.exists() else self.out / FILE_NAME
        for place in (self.report, self.steps, saved):
            if place is not None:
                check_writable(place)
        check_apart(trace, self.report, self.steps, None if self.out is None else self.out / FILE_NAME)


def carry_out(config: RunConfig, path: Path | None, check: bool, outputs: Outputs) -> None:
    """Run, print, write. `path` is of the trace. Raises UsageError and TraceError."""
    from pagesim.sim.console import progress
    from pagesim.sim.poolmap.record import FirstLogs
    from pagesim.sim.run import expected_requests

    outputs.check(path)
    trace: Trace | None = None if path is None else reading.read_with_progress(path, config.reading)[0]
    total = expected_requests(config, trace)
    logs = FirstLogs()
    with progress("requests placed" if config.queue is None else "requests served", total) as advance:
        if config.queue is None:
            result: RunResult | ServingResult = _place(config, trace, check, advance, logs)
        else:
            result = _serve(config, trace, check, advance, outputs.steps, logs)
    _hand_out(result, outputs, _recorder(config, trace, logs, outputs))


def _recorder(
    config: RunConfig, trace: Trace | None, logs: FirstLogs, outputs: Outputs
) -> Callable[[], PoolMap] | None:
    """What records the pool for the report; None if nobody asks for that."""
    from pagesim.sim.poolmap.record import record

    if outputs.report is None or not outputs.pool_map.frames:
        return None
    return lambda: record(config, trace, logs, outputs.pool_map)


def _place(
    config: RunConfig, trace: Trace | None, check: bool, advance: Callable[[int], None], logs: FirstLogs
) -> RunResult:
    from pagesim.sim.result import RunResult
    from pagesim.sim.run import run

    return RunResult.of(config, run(config, trace, check, advance, logs.keep_placed))


def _serve(
    config: RunConfig,
    trace: Trace | None,
    check: bool,
    advance: Callable[[int], None],
    path: Path | None,
    logs: FirstLogs,
) -> ServingResult:
    from pagesim.sim.serving.result import ServingResult
    from pagesim.sim.serving.run import serve_all
    from pagesim.sim.serving.steps import steps, write_steps

    def keep(name: str, log: ServingLog) -> None:
        logs.keep_served(name, log)
        if path is not None:
            write_steps(path, steps(log))

    return ServingResult.of(config, serve_all(config, trace, check, advance, keep))


def _hand_out(result: RunResult | ServingResult, outputs: Outputs, recorder: Callable[[], PoolMap] | None) -> None:
    from pagesim.sim.jsontext import dumps

    shown = _shown(result)
    written = {} if outputs.out is None else {"result": result.save(outputs.out)}
    if outputs.steps is not None:
        written["steps"] = outputs.steps
    if outputs.report is not None:
        written["report"] = _write_report(result, shown, outputs.report, recorder)
    if outputs.as_json:
        print(dumps(result.document()))
    else:
        _print(result, shown)
    for what, place in written.items():
        print(f"{what}: {place}", file=sys.stderr if outputs.as_json else sys.stdout)


def _shown(result: RunResult | ServingResult) -> Shown:
    from pagesim.sim.result import RunResult

    if isinstance(result, RunResult):
        from pagesim.sim.run_table import shown

        return shown(result)
    from pagesim.sim.serving.summary import shown as shown_serving

    return shown_serving(result)


def _write_report(
    result: RunResult | ServingResult, shown: Shown, path: Path, recorder: Callable[[], PoolMap] | None
) -> Path:
    from pagesim.sim.gallery import panels
    from pagesim.sim.report import write_report

    pool_map = None if recorder is None else recorder()
    write_report(result, shown, panels(result), path, shlex.join(["pagesim", *sys.argv[1:]]), pool_map)
    return path


def _print(result: RunResult | ServingResult, shown: Shown) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from pagesim.sim.setting import setting

    console = Console(highlight=False, markup=False)
    lines = Table.grid(padding=(0, 2))
    for line in setting(result.config, result.pool, result.trace).items():
        lines.add_row(*line)
    console.print(lines)
    if shown.warning:
        console.print(f"\nNote: {shown.warning}")
    names, first = list(result.allocators), 0
    while first < len(names):
        count = _fitting(names[first:], [row[:1] + row[1 + first :] for row in map(list, shown.rows)], console.width)
        heads = [name.replace(":", "\n:") for name in names[first : first + count]]
        table = Table("", *heads, box=SIMPLE, pad_edge=False)
        for column in table.columns:
            column.no_wrap = True
            column.justify = "left" if column is table.columns[0] else "right"
        for label, *cells in shown.rows:
            table.add_row(label, *cells[first : first + count])
        console.print(table)
        first += count
    for sentence in shown.sentences:
        console.print(f"- {sentence}")
    for remark in (shown.readings, shown.legend):
        if remark:
            console.print(f"\n{remark}")
    console.print()


def _fitting(names: list[str], rows: list[list[str]], width: int) -> int:
    """How many of the columns beside the labels fit into a line, at least one; `COLUMNS_AT_ONCE` at most."""
    needed = [max(len(row[k]) for row in rows) + GAP for k in range(len(rows[0]))]
    for k, name in enumerate(names):
        needed[k + 1] = max(needed[k + 1], *(len(part) + GAP for part in name.replace(":", " :").split()))
    fitting = [count for count in range(1, len(names) + 1) if sum(needed[: count + 1]) + 2 <= width]
    return max(1, min(COLUMNS_AT_ONCE, max(fitting, default=1)))
