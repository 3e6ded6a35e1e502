"""Pages and pictures show the numbers of the results: curves, the cliff, waste, maps."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.stats import Interval
from pagesim.sim.sweep.series import Cliff, Curve, cliff

SHORT = ("--requests", 300, "--seeds", 2)


def figures(page: Path) -> dict[str, Any]:
    """Title to figure."""
    text = page.read_text()
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    found = [json.loads(each) for each in re.findall(r"\{ const figure = (.*);$", text, re.MULTILINE)]
    assert len(titles) == len(found) + 2
    return dict(zip(titles, found, strict=False))


def named(figure: Any, name: str) -> Any:
    return next(trace for trace in figure["data"] if trace.get("name") == name)


def curve(*values: float) -> Curve:
    return Curve("x", [float(k) for k in range(len(values))], [Interval(value) for value in values])


def test_the_cliff_is_the_steepest_rise() -> None:
    assert cliff(curve(1, 1.1, 5, 40, 60), by_ratio=True, least=2) == Cliff(2, 3)
    assert cliff(curve(1, 1.1, 1.2, 1.4), by_ratio=True, least=2) is None
    assert cliff(curve(0, 0, 0.3, 0.4), by_ratio=False, least=0.01) == Cliff(1, 2)
    assert cliff(curve(0.5, 0.4, 0.3), by_ratio=False, least=0.01) is None


def test_the_page_of_a_load_shows_the_knee_with_its_cliff(sweep: Any) -> None:
    document = sweep("--on-full", "queue", "--load", "0.4:1.6:0.4", "--allocators", "paged", *SHORT, "--json").json()
    knee = figures(Path("pagesim-sweep/sweep.html"))["The knee"]
    values = [line["figures"]["ttft_s_p99"]["mean"] for line in document["lines"]]
    paged = named(knee, "paged")
    assert paged["y"] == pytest.approx(values)
    assert paged["x"] == pytest.approx([line["offered_load"] for line in document["lines"]])
    loads = paged["x"]
    steepest = max(range(3), key=lambda k: (values[k + 1] / values[k]) ** (1 / (loads[k + 1] - loads[k])))
    (mark,) = [trace for trace in knee["data"] if trace["mode"] == "markers"]
    assert (mark["x"], mark["y"]) == ([loads[steepest]], [paged["y"][steepest]])
    preempted = knee["data"][-1]
    assert preempted["y"] == pytest.approx([line["figures"]["preempted_share"]["mean"] for line in document["lines"]])


def test_waste_by_block_size_and_one_curve_where_blocks_make_no_difference(sweep: Any) -> None:
    words = ("--lengths", "fixed:50,fixed:100,fixed:200", "--block-size", "16,64")
    document = sweep(*words, "--load", 2, "--allocators", "reservation,paged", *SHORT, "--json").json()
    shown = figures(Path("pagesim-sweep/sweep.html"))
    waste = shown["Waste by block size"]
    assert named(waste, "paged, lengths fixed:50")["y"] == pytest.approx([14 / 64, 14 / 64])  # 4 x 16 and 1 x 64
    assert named(waste, "paged, lengths fixed:200")["y"] == pytest.approx([8 / 208, 56 / 256])
    by_length = shown["By tokens of a request, in the mean"]
    assert [trace["name"] for trace in by_length["data"][:3]] == [
        "reservation", "paged, block size 16", "paged, block size 64",
    ]  # fmt: skip
    assert by_length["data"][1]["x"] == [50, 100, 200]
    maps = [trace for trace in shown["The map"]["data"] if trace["type"] == "heatmap"]
    wanted = {
        (line["allocator"], line["mean_tokens"], line["options"]["block_size"]): line for line in document["lines"]
    }
    for name, each in zip(("reservation", "paged"), maps, strict=True):
        for row, size in enumerate((16, 64)):
            for column, tokens in enumerate((50, 100, 200)):
                line = wanted[name, tokens, size]
                assert each["z"][row][column] == pytest.approx(line["figures"]["refused_share"]["mean"])


def captions(page: Path) -> list[str]:
    return re.findall(r"<h2>The (?:map|knee)</h2>\s*<[^>]*>(.*?)</", page.read_text(), re.DOTALL)


def test_with_both_disciplines_each_figure_is_of_the_one_that_has_it(sweep: Any) -> None:
    words = ("--load", "0.5,1", "--block-size", "16,64", "--on-full", "refuse,queue", "--allocators", "paged")
    document = sweep(*words, *SHORT, "--json").json()
    queued = [
        line["figures"]["ttft_s_p99"]["mean"]
        for line in document["lines"]
        if line["options"] | {"load": None} == {"load": None, "block_size": 16, "on_full": "queue"}
    ]
    page = Path("pagesim-sweep/sweep.html")
    assert len(queued) == 2
    knee, heat = figures(page)["The knee"], figures(page)["The map"]  # the last of each: those of the queue
    assert next(trace for trace in knee["data"] if "block size 64" not in trace["name"])["y"] == pytest.approx(queued)
    assert heat["data"][0]["z"][0] == pytest.approx(queued)
    said = [text.rsplit("Shown for ", 1)[1].strip() for text in captions(page)]
    assert said == ["on full refuse.", "on full queue.", "on full refuse.", "on full queue."]


def test_a_page_asks_the_network_for_nothing_and_no_page_was_no_page(sweep: Any) -> None:
    assert sweep(*SHORT, "--load", "1,2").out.rstrip().endswith("report: pagesim-sweep/sweep.html")
    page = Path("pagesim-sweep/sweep.html").read_text()
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="(?!data:)', page)
    sweep(*SHORT, "--no-html", "--out", "bare")
    assert sorted(path.name for path in Path("bare").iterdir()) == ["points.jsonl", "results.parquet"]


def test_the_first_figure_by_itself(sweep: Any) -> None:
    words = ("--lengths", "fixed:50,fixed:100,fixed:200", "--load", 2, *SHORT)
    assert sweep(*words, "--figure", "a.html").out.rstrip().endswith("figure: a.html")
    (drawn,) = re.findall(r"const figure = (.*);$", Path("a.html").read_text(), re.MULTILINE)
    first = figures(Path("pagesim-sweep/sweep.html"))["By tokens of a request, in the mean"]
    assert json.loads(drawn)["data"] == first["data"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--figure", "a.html"), "--figure: nothing to draw; accepted: where some option takes several numbers"),
        (("--figure", "a.bmp", "--load", "1,2"), "a.bmp: ends in '.bmp'; accepted: .html"),
    ],
)
def test_a_figure_that_cannot_be_is_one_line(sweep: Any, words: tuple[str, ...], said: str) -> None:
    outcome = sweep(*SHORT, "--no-html", *words)
    assert outcome.status == 2
    assert said in outcome.err, outcome.err


def test_the_page_of_a_frontier_has_its_marks_and_intervals(pagesim: Any) -> None:
    words = ("--slo", "refused<1%", "--pool-tokens", 10_000, "--max-model-len", 500, "--lengths", "fixed:100,fixed:200")
    outcome = pagesim("frontier", *words, "--requests", 200, "--seeds", 3, "--jobs", 1, "--json")
    lines = outcome.json()["lines"]
    marks = figures(Path("pagesim-frontier/frontier.html"))["The frontier"]["data"][0]
    assert marks["x"] == pytest.approx([line["load"]["mean"] for line in lines])
    assert marks["error_x"]["array"] == pytest.approx([line["load"]["high"] - line["load"]["mean"] for line in lines])
    assert marks["y"][0] == "lengths fixed:100, reservation"


def test_allocators_of_a_kind_that_are_the_same_throughout_are_one_curve_where_there_are_many(sweep: Any) -> None:
    words = ("--on-full", "queue", "--allocators", "all", "--load", "0.4,1.2", "--pool-tokens", 20_000, *SHORT)
    lines = sweep(*words, "--json").json()["lines"]
    shown = ("ttft_s_p99", "tpot_s_p50", "preempted_share")
    had: dict[str, Any] = {}
    for line in lines:
        had.setdefault(line["allocator"], []).append([line["figures"][name] for name in shown])
    knee = figures(Path("pagesim-sweep/sweep.html"))["The knee"]
    names = [trace["name"].replace("<br>", "").split(" = ") for trace in knee["data"] if trace.get("showlegend")]
    assert sorted(name for some in names for name in some) == sorted(had)
    assert max(map(len, names)) > 1
    for some in names:
        assert all(had[name] == had[some[0]] for name in some)
    colours = {name[0].split(":")[0]: set() for name in names}  # type: dict[str, set[str]]
    for trace in knee["data"]:
        if trace.get("line"):
            colours[trace["name"].split(":")[0].split(" ")[0]].add(trace["line"]["color"])
            assert not trace.get("error_y", {}).get("visible"), "too many bars to tell apart"
    assert all(len(each) == 1 for each in colours.values()) and len(set.union(*colours.values())) == len(colours) == 4


def test_a_map_says_what_the_table_says(sweep: Any) -> None:
    lines = sweep("--load", "0.8,1.4", "--block-size", "16,64", "--allocators", "paged", *SHORT, "--json").json()[
        "lines"
    ]
    (cells,) = [each for each in figures(Path("pagesim-sweep/sweep.html"))["The map"]["data"] if "z" in each]
    said = {text for row in cells["text"] for text in row}
    page = Path("pagesim-sweep/sweep.html").read_text()
    assert len(lines) == 4 and all(f"<td>{text} ±" in page for text in said)


def test_the_curves_of_one_figure_have_the_same_names_in_all_its_plots(sweep: Any) -> None:
    sweep("--load", "0.5,1", "--on-full", "refuse,queue", *SHORT)
    found = re.findall(r"\{ const figure = (.*);$", Path("pagesim-sweep/sweep.html").read_text(), re.MULTILINE)
    for knee in map(json.loads, found[:2]):
        names = [trace["name"] for trace in knee["data"] if "line" in trace]
        assert len(names) > 3 and set(names) == {"reservation", "exact-fit", "paged"}


def test_means_stand_under_an_axis_rounded(sweep: Any) -> None:
    sweep("--lengths", "lognormal:65:45,lognormal:260:180,lognormal:1040:720", "--load", 2, *SHORT)
    shown = figures(Path("pagesim-sweep/sweep.html"))["By tokens of a request, in the mean"]
    labels = next(axis["ticktext"] for name, axis in shown["layout"].items() if "xaxis" in name and "ticktext" in axis)
    assert labels == ["65", "258", "895"]
