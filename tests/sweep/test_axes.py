"""What an option takes in a sweep, as text."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from pagesim.sim.errors import UsageError
from pagesim.sim.sweep.axes import KINDS, LOADS, WHOLE_TEXT, axis
from pagesim.sim.sweep.design import grid, random_design


def test_ranges_have_both_ends_and_no_neighbours_of_their_decimals() -> None:
    loads = axis("load", ["0.2:1.4:0.1"], LOADS).values
    assert loads == tuple(f"{k / 10:g}" for k in range(2, 15))
    assert axis("watermark", ["0:0.3:0.1"], KINDS[float]).values == (0.0, 0.1, 0.2, 0.3)
    assert axis("block_size", ["16:64:16"], KINDS[int]).values == (16, 32, 48, 64)
    assert axis("load", ["0.5:1:0.3"], LOADS).values == ("0.5", "0.8")


def test_values_ranges_and_repeats_are_joined_each_value_once() -> None:
    assert axis("load", ["high,0.5:1:0.5", "1,2/s"], LOADS).values == ("high", "0.5", "1", "2/s")
    assert axis("prefix_caching", ["on,off"], KINDS[bool]).values == (True, False)


def test_words_with_colons_and_commas_stay_whole() -> None:
    assert axis("lengths", ["uniform:2:40,fixed:9"], KINDS[str]).values == ("uniform:2:40", "fixed:9")
    assert axis("slo", ["ttft<2s,tpot<50ms", "ttft<1s"], WHOLE_TEXT).values == ("ttft<2s,tpot<50ms", "ttft<1s")


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("16,x", KINDS[int], "--x 'x'; accepted: a whole number, or LOW:HIGH:STEP"),
        ("1:2:0", KINDS[float], "STEP more than 0"),
        ("2:1:1", KINDS[float], "LOW <= HIGH"),
        ("1:2:3:4", KINDS[float], "LOW:HIGH:STEP"),
        ("a:b:c", LOADS, "all numbers"),
        ("1:nan:1", LOADS, "all numbers"),
        ("0:1:0.000001", LOADS, "1,000,001 values; accepted: up to 100,000"),
        ("0:1e999999:1", LOADS, "all numbers, of up to 300 digits"),
        ("0:1e99999999:1e-99999999", LOADS, "all numbers, of up to 300 digits"),
        ("1:" + "9" * 5000 + ":1", KINDS[int], "all numbers, of up to 300 digits"),
        ("1:1e999", LOADS, "all numbers, of up to 300 digits"),
        ("0:1:log", LOADS, "0 < LOW"),
        ("1:2,3", LOADS, "an interval by itself"),
        ("1:2:0.5", KINDS[int], "'1.5'; accepted: a whole number"),
        ("perhaps", KINDS[bool], "on or off"),
    ],
)
def test_what_makes_no_sense_is_named(text: str, kind: object, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        axis("x", [text], kind)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_grid_has_every_combination_and_no_interval() -> None:
    axes = [axis("load", ["1,2"], LOADS), axis("block_size", ["8,16"], KINDS[int])]
    assert [tuple(each.values()) for each in grid(axes)] == [("1", 8), ("1", 16), ("2", 8), ("2", 16)]
    with pytest.raises(
        UsageError, match="--load is an interval; accepted: LOW:HIGH:STEP, or, to draw from it, `sweep --random N`"
    ):
        grid([axis("load", ["1:2"], LOADS)])


def test_a_random_design_fills_its_intervals_and_begins_alike_however_long() -> None:
    axes = [
        axis("load", ["0.5:1.5"], LOADS), axis("block_size", ["1:1024:log"], KINDS[int]),
        axis("policy", ["fcfs,priority"], KINDS[str]),
    ]  # fmt: skip
    drawn = list(random_design(axes, 400, 7))
    assert drawn[:50] == list(random_design(axes, 50, 7))
    assert drawn != list(random_design(axes, 400, 8))
    loads = np.array([float(each["load"]) for each in drawn])
    assert ((loads >= 0.5) & (loads <= 1.5)).all()
    assert np.histogram(loads, 4, (0.5, 1.5))[0].min() > 60
    sizes = np.array([each["block_size"] for each in drawn])
    assert (np.histogram(np.log2(sizes), 5, (0, 10))[0] > 40).all()
    assert {each["policy"] for each in islice(drawn, 20)} == {"fcfs", "priority"}
