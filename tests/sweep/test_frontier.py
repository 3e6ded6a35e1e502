"""The frontier: against a closed form, against `pagesim run` on both sides of it, against cards dealt out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.errors import UsageError
from pagesim.sim.sweep.bisection import HIGHEST, LOWEST, State, highest_load, least_cards
from pagesim.sim.sweep.objective import parse_objective
from pagesim.sim.sweep.routing import shares
from pagesim.sim.trace import HashIds, Trace

POOL = ("--pool-tokens", 10_000, "--max-model-len", 500)
ERLANGS = 12.031  # offered to 20 servers for a loss of 1% (Erlang B)


@given(st.floats(LOWEST * 1.01, HIGHEST * 0.99), st.sampled_from([0.001, 0.01, 0.3]))
def test_bisection_finds_where_it_changes(edge: float, precision: float) -> None:
    found = highest_load(lambda load: load <= edge, precision)
    assert found.state is State.FOUND and found.load is not None
    assert found.load <= edge * (1 + 1e-5) and edge < found.load * (1 + precision) * (1 + 1e-5)


def test_there_may_be_no_highest_load() -> None:
    assert highest_load(lambda load: True, 0.01).state is State.ALWAYS
    never = highest_load(lambda load: False, 0.01)
    assert (never.state, never.load) == (State.NEVER, None)


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_least_number_of_cards(least: int, most: int) -> None:
    assert least_cards(lambda cards: cards >= least, most) == (least if least <= most else None)


def test_loss_of_reservations_is_erlangs(pagesim: Any) -> None:
    """20 reservations; by insensitivity how long a request stays does not matter but in the mean."""
    words = ("--lengths", "fixed:100", "--allocator", "reservation", "--requests", 4000, "--warmup", 0.1)
    outcome = pagesim("frontier", "--slo", "refused<1%", *POOL, *words, "--seeds", 8, "--jobs", 1, "--json")
    assert outcome.status == 0, outcome.err
    (line,) = outcome.json()["lines"]
    exact = ERLANGS * 100 / 10_000
    assert line["load"]["low"] <= exact <= line["load"]["high"] * 1.01
    assert line["load"]["high"] - line["load"]["low"] < 0.2 * exact
    assert line["rate_per_s"]["mean"] == pytest.approx(line["load"]["mean"] * 10_000 / 100, rel=1e-4)


@pytest.mark.parametrize(
    ("slo", "discipline", "figure"),
    [("refused<2%", "refuse", ("refused_share", "mean")), ("ttft_p99<2s", "queue", ("ttft_s", "p99", "mean"))],
)
def test_run_agrees_on_both_sides(pagesim: Any, slo: str, discipline: str, figure: tuple[str, ...]) -> None:
    words = (*POOL, "--lengths", "uniform:2:400", "--requests", 400, "--allocator", "paged")
    document = pagesim("frontier", "--slo", slo, *words, "--seeds", 1, "--seed", 3, "--jobs", 1, "--json").json()
    (line,) = document["lines"]
    load = line["load"]["mean"]

    def value(at: float) -> float:
        run = ("run", "--on-full", discipline, "--load", f"{at:.6g}", "--seed", 3, "--runs", 1, "--json")
        found = pagesim(*run, *words).json()["allocators"]["paged"]
        for key in figure:
            found = found[key]
        return float(found)

    limit = {"refuse": 0.02, "queue": 2.0}[discipline]
    assert value(load) < limit <= value(load * 1.03)
    assert next(iter(line["figures"].values()))["mean"] == pytest.approx(value(load))


def write_trace(path: Path, beginnings: int) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for k, at in enumerate(np.cumsum(rng.exponential(0.02, 120))):
            row = {"arrival_s": float(at), "prompt_tokens": 96, "output_tokens": 20,
                   "hash_ids": [k % beginnings, 1000 + k % beginnings, 2000 + k]}  # fmt: skip
            file.write(json.dumps(row) + "\n")


QUEUE = (
    "--hash-block-tokens", 32, "--pool-tokens", 3200, "--max-model-len", 500, "--max-num-seqs", 4,
    "--allocator", "paged", "--prefix-caching", "on", "--step-time", "constant:0.02", "--jobs", 1,
)  # fmt: skip


def test_cards_for_a_trace_are_the_fewest_that_hold_it(pagesim: Any) -> None:
    write_trace(Path("t.jsonl"), 6)
    outcome = pagesim("frontier", "--slo", "ttft_p99<500ms", "--trace", "t.jsonl", *QUEUE, "--json")
    (line,) = outcome.json()["lines"]
    cards = line["cards"]["cards"]
    assert cards > 1
    rows = Path("t.jsonl").read_text().splitlines()

    def worst(number: int) -> float:
        each = []
        for card in range(number):
            Path("share.jsonl").write_text("\n".join(rows[card::number]) + "\n")
            words = ("--trace", "share.jsonl", "--start", "keep", "--on-full", "queue", "--prefix-caching", *QUEUE[:10])
            run = pagesim("run", *words, "--step-time", "constant:0.02", "--json").json()
            each.append(run["allocators"]["paged"]["ttft_s"]["p99"]["mean"])
        return max(each)

    assert worst(cards) < 0.5 <= worst(cards - 1)
    assert line["cards"]["on_cards"]["worst"]["ttft_s_p99"] == pytest.approx(worst(cards))
    said = " ".join(pagesim("frontier", "--slo", "ttft_p99<500ms", "--trace", "t.jsonl", *QUEUE).out.split())
    assert f"takes {cards} cards, dealt out by round-robin" in said
    assert "of the prompt tokens are found in the caches" in said


def test_a_trace_that_says_nothing_of_beginnings_is_told_before_anything_is_run(pagesim: Any) -> None:
    line = '{"arrival_s": %d, "prompt_tokens": 9, "output_tokens": 20}\n'
    Path("t.jsonl").write_text(line % 0 + line % 1)
    outcome = pagesim("frontier", "--slo", "ttft_p99<1s", "--trace", "t.jsonl", "--route", "prefix")
    assert outcome.status == 2
    assert "--route prefix: t.jsonl has no hash_ids; accepted: round-robin" in outcome.err


def test_prompts_that_begin_alike_go_to_one_card_and_are_found_there(pagesim: Any) -> None:
    write_trace(Path("t.jsonl"), 6)
    found = {}
    for route in ("round-robin", "prefix"):
        words = ("--slo", "ttft_p99<500ms", "--trace", "t.jsonl", "--route", route, *QUEUE, "--json")
        (line,) = pagesim("frontier", *words).json()["lines"]
        found[route] = line["cards"]
    assert found["prefix"]["on_cards"]["prefix_hit_share"] >= found["round-robin"]["on_cards"]["prefix_hit_share"] > 0


def test_routing_by_hand() -> None:
    ids = [[1, 2, 3], [1, 9, 8], [1, 2, 4], [5, 5, 5], [1, 9, 8], [1, 2, 3]]
    trace = Trace(np.arange(6.0), np.full(6, 30), np.full(6, 5), hash_ids=HashIds.of(ids), hash_block_tokens=10)
    dealt = [share.arrival_s.tolist() for share in shares(trace, 2, "prefix")]
    assert dealt == [[0.0, 2.0, 5.0], [1.0, 3.0, 4.0]]
    assert [share.arrival_s.tolist() for share in shares(trace, 4, "round-robin")] == [[0, 4], [1, 5], [2], [3]]
    assert len(list(shares(trace, 9, "round-robin"))) == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("refused<1%,ttft_p99<2s", "accepted: terms of one kind"),
        ("ttft<2s", "'ttft<2s'; accepted: terms like"),
        ("ttft_p99<2%", "accepted: terms like"),
        ("refused<2s", "accepted: terms like"),
        ("ttft_p99<0s", "accepted: terms like"),
        ("ttft_p99<1s,ttft_p99<2s", "each figure once"),
        ("", "''; accepted: terms like"),
        ("refused<1", "'refused<1' is a share of all; accepted: less than 100%, like refused<1%"),
        ("dropped<200%", "'dropped<200%' is a share of all"),
    ],
)
def test_an_objective_that_makes_no_sense(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_objective(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slo", "refused<1%", "--precision", 0), "--precision 0; accepted: 0.0001 to 1"),
        (("--slo", "refused<1%", "--route", "prefix"), "--route prefix deals out a trace"),
        (("--slo", "refused<1%", "--route", "fair"), "--route fair; accepted: round-robin, prefix"),
        (("--slo", "refused<1%", "--max-num-seqs", 3), "--max-num-seqs is of serving"),
        ((), "Missing option '--slo'"),
    ],
)
def test_a_mistake_is_one_line(pagesim: Any, words: tuple[object, ...], said: str) -> None:
    outcome = pagesim("frontier", *words, "--jobs", 1)
    assert outcome.status == 2
    assert said in outcome.err, outcome.err


def test_what_no_load_and_every_load_holds_is_said_so(pagesim: Any) -> None:
    words = (*POOL, "--lengths", "fixed:100", "--requests", 50, "--seeds", 1, "--jobs", 1, "--allocator", "paged")
    step = ("--step-time", "constant:0.01")
    assert "holds at any load" in pagesim("frontier", "--slo", "tpot_p50<1s", *words, *step, "--out", "a").out
    never = pagesim("frontier", "--slo", "tpot_p50<1ms", *words, *step, "--out", "b")
    assert "does not hold even at a load of 0.0078" in " ".join(never.out.split())


def test_searches_are_kept(pagesim: Any) -> None:
    words = ("frontier", "--slo", "refused<1%", *POOL, "--lengths", "fixed:100", "--requests", 100, "--jobs", 1)
    first = pagesim(*words, "--seeds", 1)
    again = pagesim(*words, "--seeds", 2)
    assert "3 of 3 searches to run, 0 skipped" in first.err
    assert "3 of 6 searches to run, 3 skipped" in again.err
    other = pagesim(*words, "--seeds", 2, "--precision", 0.1)
    assert "6 of 6 searches to run, 0 skipped" in other.err
    other = pagesim(*words, "--seeds", 2, "--slo", "refused<2%")
    assert "6 of 6 searches to run, 0 skipped" in other.err


def test_where_one_seed_failed_there_is_no_interval_of_the_others(pagesim: Any) -> None:
    Path("sulky.py").write_text(
        "from pathlib import Path\n"
        "from pagesim.sim.allocators import Paged\n"
        "class Sulky(Paged):\n"
        "    def release(self, owner):\n"
        "        assert not Path('bad').exists(), 'bad is there'\n"
        "        super().release(owner)\n"
    )
    words = ("frontier", "--slo", "refused<1%", *POOL, "--lengths", "fixed:100", "--requests", 200, "--jobs", 1)
    words = (*words, "--allocator", "sulky:Sulky", "--json")
    (line,) = pagesim(*words, "--seeds", 1).json()["lines"]
    assert line["load"] is not None
    Path("bad").touch()
    outcome = pagesim(*words, "--seeds", 2)
    (line,) = outcome.json()["lines"]
    assert outcome.status == 1
    assert line["error"] == "AssertionError: bad is there"
    assert (line["states"], line["load"], line["rate_per_s"]) == ({"found": 1}, None, None)
