"""The parts that readers are made of, each against a slow and plain way of doing the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.errors import TraceError
from pagesim.sim.readers.chat_roots import chat_roots
from pagesim.sim.readers.duplicates import repeats
from pagesim.sim.reading import ReadReport
from pagesim.sim.servegen import read_servegen
from pagesim.sim.trace import HashIds

SMALL = st.integers(0, 2)


@given(st.lists(st.tuples(SMALL, SMALL, st.lists(SMALL, max_size=3)), min_size=1, max_size=30))
def test_repeats_are_the_rows_seen_before(rows: list[tuple[int, int, list[int]]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    columns = {"arrival": np.array([row[0] for row in rows]), "prompt_tokens": np.array([row[1] for row in rows])}
    expected = [row in rows[:k] for k, row in enumerate(rows)]
    assert repeats(columns, HashIds.of([row[2] for row in rows])).tolist() == expected
    without = [row[:2] in [other[:2] for other in rows[:k]] for k, row in enumerate(rows)]
    assert repeats(columns, None).tolist() == without


@given(st.lists(st.integers(-1, 60), min_size=1, max_size=40), st.randoms())
def test_roots_are_found_by_walking_up(parents: list[int], random: object) -> None:
    parent = {k: (p if p < k else -1) for k, p in enumerate(parents)}  # an earlier chat, or none
    parent[len(parents)] = 10_000  # one that is not there
    order = list(parent)
    random.shuffle(order)  # type: ignore[attr-defined]

    def root(chat: int) -> int:
        above = parent.get(chat, -1)
        return chat if above == -1 else root(above)

    found, orphans = chat_roots(np.array(order), np.array([parent[chat] for chat in order]))
    assert found.tolist() == [root(chat) for chat in order]
    assert orphans == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
def test_circles_of_any_length_are_refused(size: int) -> None:
    chats = np.arange(size)
    with pytest.raises(TraceError, match="its own ancestor; accepted: parents that end at -1"):
        chat_roots(chats, np.roll(chats, 1))


def servegen(folder: Path, text: str) -> Path:
    (folder / "client.csv").write_text(text)
    return folder / "client.csv"


def test_servegen_windows(tmp_path: Path) -> None:
    windows = read_servegen(servegen(tmp_path, "0,1.5,8.5,Weibull,0.375,0.25\n600,0,0,,0,0\n1200,2,3,Gamma,0.5,100\n"))
    assert windows.t_s.tolist() == [0, 600, 1200]
    assert windows.rate_per_s.tolist() == [1.5, 0, 2]
    assert windows.cv.tolist() == [8.5, 0, 3]
    assert windows.kind == ("weibull", None, "gamma")
    assert (windows.a.tolist(), windows.b.tolist()) == ([0.375, 0, 0.5], [0.25, 0, 100])


BAD_WINDOWS = [
    ("600,-1,0,,0,0", "line 2: rate is -1; accepted: a finite number, 0 or more"),
    ("600,x,0,,0,0", "line 2: rate is 'x'; accepted"),
    ("600,1,inf,Gamma,1,1", "line 2: cv is inf; accepted"),
    ("600,1,1,Pareto,1,1", "line 2: kind is 'Pareto'; accepted: Gamma, Weibull, or nothing"),
    ("600,1,1,,1,1", "line 2: kind is '', a 1, b 1 at a rate of 1; accepted: Gamma or Weibull, with a and b above 0"),
    ("600,1,1,Gamma,0,1", "line 2: kind is 'Gamma', a 0, b 1 at a rate of 1; accepted"),
    ("0,1,1,Gamma,1,1", "line 2: t is 0; accepted: later than the line before"),
    ("600,1,1", "accepted: lines of t, rate, cv, kind, a, b"),
]


@pytest.mark.parametrize(("line", "message"), BAD_WINDOWS)
def test_bad_windows_are_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_servegen(servegen(tmp_path, f"0,1,1,Gamma,1,1\n{line}\n"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_report_of_nothing_odd_says_nothing() -> None:
    assert ReadReport("pagesim", 3, 3, distinct_arrivals=3).sentences() == []


def test_a_report_says_each_thing_once() -> None:
    report = ReadReport(
        "burstgpt", 30, 20, 1, 2, "line 4: oops", 5, "one", 3, 4, 4, 20, 0.5, 7.0, "7 s", 20, ("Model",), ("a note",)
    )
    assert report.sentences() == [
        "1 blank line passed over",
        "2 bad rows skipped, the first at line 4: oops",
        "5 rows without an output token: counted as one token",
        "3 rows out of order: sorted by arrival",
        "4 rows equal to an earlier one: dropped",
        "arrivals count from the first, which is 7 s",
        "every arrival moved later by its own draw from [0, 0.5) s",
        "only the first 20 usable rows of the file were read",
        "left out, for want of a place in a trace: Model",
        "a note",
    ]
    assert report.as_dict()["changed"] == report.sentences()
