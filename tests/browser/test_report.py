"""The report in a browser: it draws, asks the network for nothing, plays to a refusal, and has no serious fault of
accessibility, on a phone and on a wide screen, light and dark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.config import PoolConfig, QueueConfig, RunConfig, WorkloadConfig
from pagesim.sim.gallery import panels as panels_of
from pagesim.sim.poolmap.page import PoolMap, frames_of
from pagesim.sim.poolmap.playback import Playback
from pagesim.sim.poolmap.record import FirstLogs, MapOptions, record
from pagesim.sim.report import write_report
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.sim.run_table import shown
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.serving.summary import shown as shown_serving

SCREENS = [("small", 390, "light"), ("small", 1440, "dark"), ("queue", 390, "dark"), ("queue", 1440, "light")]


@dataclass(frozen=True)
class Case:
    """A page, what it was made of, and to which kind of event its player is to go."""

    page: Path
    pool_map: PoolMap
    panels: int
    jump: str


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    folder = tmp_path_factory.mktemp("pages")
    return {
        "small": placed(folder / "small.html", 3_000, 512, 120, 400),
        "large": placed(folder / "large.html", 100_000, 2048, 1_500, 60),
        "grown": placed(folder / "grown.html", 3_000, 512, 120, 200, growth="token"),
        "queue": served(folder / "queue.html"),
    }


def placed(path: Path, tokens: int, longest: int, requests: int, frames: int, **words: Any) -> Case:
    config = RunConfig(
        load="1.4", pool=PoolConfig(tokens=tokens), max_model_len=longest, num_runs=1,
        workload=WorkloadConfig(num_requests=requests, lengths="lognormal:130:90"), **words,
    )  # fmt: skip
    logs = FirstLogs()
    result = RunResult.of(config, run(config, on_log=logs.keep_placed))
    pool_map, panels = record(config, None, logs, MapOptions(frames)), panels_of(result)
    write_report(result, shown(result), panels, path, "pagesim run <made by a test>", pool_map)
    return Case(path, pool_map, len(panels), "refusal")


def served(path: Path) -> Case:
    rules = ServingConfig(num_blocks=150, max_model_len=512, max_num_seqs=16, prefix_caching=True)
    config = RunConfig(
        load="1.2", on_full="queue", queue=QueueConfig(rules), pool=PoolConfig(tokens=2_400), max_model_len=512,
        num_runs=1, workload=WorkloadConfig(num_requests=100),
    )  # fmt: skip
    logs = FirstLogs()
    result = ServingResult.of(config, serve_all(config, on_log=logs.keep_served))
    pool_map, panels = record(config, None, logs, MapOptions(300)), panels_of(result)
    write_report(result, shown_serving(result), panels, path, "pagesim run <made by a test>", pool_map)
    return Case(path, pool_map, len(panels), "preemption")


def accounts(pool_map: PoolMap) -> list[list[list[int]]]:
    """By frame, by allocator, as Python plays it."""
    each = [[] for _ in frames_of(pool_map.recordings)]  # type: list[list[list[int]]]
    for recording in pool_map.recordings:
        played, moments = Playback(recording), list(recording.moments)
        for place, time_s in enumerate(frames_of(pool_map.recordings)):
            while moments and moments[0].time_s <= time_s:
                played.apply(moments.pop(0))
            account = played.account(time_s)
            each[place].append([account.used, account.reserved, account.internal, account.free])
    return each


@pytest.mark.parametrize(("name", "width", "scheme"), SCREENS)
def test_the_page_draws_plays_and_is_accessible(look: Any, cases: Any, name: str, width: int, scheme: str) -> None:
    case = cases[name]
    seen = look(case.page, width, scheme, case.jump)
    assert seen["messages"] == [] and seen["requests"] == [f"file://{case.page}"]
    assert seen["faults"] == []
    assert seen["size"]["wide"] <= seen["size"]["inner"], "nothing sticks out to the side"
    assert len(seen["panels"]) == case.panels
    for panel in seen["panels"]:
        assert panel["marks"] > 0 and 0 < panel["wide"] <= panel["room"] + 1, panel
    check_player(seen, case)


@pytest.mark.parametrize("name", ["large", "grown"])
def test_pools_of_other_kinds_play_as_well(look: Any, cases: Any, name: str) -> None:
    case = cases[name]
    seen = look(case.page, 1440, "light", case.jump)
    assert seen["messages"] == [] and seen["faults"] == []
    check_player(seen, case)


def check_player(seen: dict[str, Any], case: Case) -> None:
    assert case.jump in seen["kinds"] and seen["first"]["frame"] == 0
    signs, keys, legend = seen["words"]
    assert {"refusal": "▼ refusal", "preemption": "▽ a wait begins, ✕ preemption"}[case.jump] in signs.replace(
        "\u00a0", " "
    )
    assert f"n goes to the next {seen['kinds'][0]}." in keys
    assert ("the sequence you picked" in legend) == ("a colour and a number for each sequence" in legend)
    flashing = [pool for pool in seen["jumped"]["pools"] if pool["flash"]]
    word = {"refusal": "REFUSED", "preemption": "PREEMPTED"}[case.jump]
    assert any(word in pool["told"] for pool in flashing), "the event is said in words"
    if case.jump == "refusal":
        (refused, *_) = [pool for pool in flashing if word in pool["told"]]
        assert refused["ask"] == "visible" and "needed: " in refused["bars"] and "free in all: " in refused["bars"]
    assert min(seen["colours"]) > 2, "every canvas has been drawn on"
    wanted = accounts(case.pool_map)
    last = len(wanted) - 1
    assert seen["right"] == min(seen["jumped"]["frame"] + 1, last) and seen["home"] == 0 and seen["end"] == last
    assert seen["left"] == max(seen["n"] - 1, 0) and seen["playing"] and seen["paused"]
    assert seen["accounts"]["forward"] == wanted
    assert seen["accounts"]["back"] == [[frame, wanted[frame]] for frame, _ in seen["accounts"]["back"]]
    assert (seen["redrawn"], set(seen["asAfresh"])) == (True, {True})
    table = seen["table"]
    assert table["picture"] == table["entries"] and table["picked"] == 1 and table["tokens"] > 17
    block = table["entries"][17 // table["unit"]]
    slot = f"{block * table['unit'] + 17 % table['unit']:,}"
    assert f"block_table[{17 // table['unit']}] = {block:,}" in table["address"] and f"= {slot}" in table["address"]
    assert not table["hashes"] or case.jump == "preemption", "a run without hashes promises none"
    assert seen["hover"] != "Point at the map: here stands what lies there."


def test_every_page_stays_under_six_megabytes(cases: Any) -> None:
    assert {name: case.page.stat().st_size < 6_000_000 for name, case in cases.items()} == dict.fromkeys(cases, True)
