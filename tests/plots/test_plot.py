"""`pagesim plot` and the gallery behind it: the figures of the report, by name, and no others."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.io
import pytest

from pagesim import cli
from pagesim.sim.errors import UsageError
from pagesim.sim.figures import styles
from pagesim.sim.gallery import draw, load, picture, pictures
from pagesim.sim.picture_file import write_picture
from pagesim.sim.report import figure_json

PAGE = (Path(__file__).parents[2] / "docs" / "plot.md").read_text()
RUNS = {
    "placed": ["--load", "high", "--pool-tokens", "20000", "--requests", "500"],
    "roomy": ["--load", "0.1", "--requests", "100", "--allocators", "paged"],
    "served": ["--on-full", "queue", "--num-blocks", "300", "--load", "1.5", "--requests", "200"],
    "single": ["--on-full", "queue", "--requests", "50", "--rate", "5", "--prompt-lengths", "fixed:9",
               "--output-lengths", "fixed:1", "--allocators", "paged"],
}  # fmt: skip
NAMES = {
    "placed": ["account", "refusals", "refused-by-length", "capacity"],
    "roomy": ["account", "capacity"],
    "served": ["account", "queue", "ttft", "tpot", "e2e", "preemptions"],
    "single": ["account", "queue", "ttft", "e2e"],
}


def called(words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", ["pagesim", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a result of each of RUNS, and its report."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, words in RUNS.items():
            assert called(["run", *words, "--runs", "1", "--out", name, "--html", f"{name}.html"], patch) == 0
    return folder


@pytest.fixture
def pagesim(saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(saved)

    def call(*words: str) -> tuple[object, str, str]:
        return called(["plot", *words], monkeypatch), *capsys.readouterr()

    return call


@pytest.mark.parametrize("name", RUNS)
def test_the_report_has_the_figures_of_the_gallery_and_no_others(saved: Path, name: str) -> None:
    result = load(saved / name)
    there = [each for each in pictures(result) if each.lacking is None]
    assert [each.name for each in there] == NAMES[name]
    report = (saved / f"{name}.html").read_text()
    assert report.count('<script type="application/json" class="figure"') == len(there)
    for each in there:
        assert f">{figure_json(each.draw())}</script>" in report, each.name
        assert each.caption in report


@pytest.mark.parametrize(("name", "figure"), [(name, figure) for name in RUNS for figure in NAMES[name]])
def test_a_page_holds_the_figure_of_the_report(saved: Path, pagesim: Any, name: str, figure: str) -> None:
    assert pagesim(name, "--figure", figure, "--out", "page.html") == (0, f"{figure}: page.html\n", "")
    (drawn,) = re.findall(r"const figure = (.*);", (saved / "page.html").read_text())
    assert f">{drawn}</script>" in (saved / f"{name}.html").read_text()


def test_figures_show_the_numbers_of_the_result(saved: Path) -> None:
    placed, served = load(saved / "placed" / "run.json"), load(saved / "served")
    used = [trace for trace in draw(placed, "account").data if trace.legendgroup == "used"]
    assert [list(trace.y) for trace in used] == [list(a.series.used) for a in placed.allocators.values()]
    queue = draw(served, "queue").data
    paged = served.allocators["paged"]
    assert [list(trace.y) for trace in queue if trace.name == "paged"] == [paged.series.running, paged.series.waiting]
    (ttft,) = [trace for trace in draw(served, "ttft").data if trace.name == "paged"]
    assert list(ttft.x) == paged.percentiles["ttft_s"]


def test_an_allocator_looks_the_same_in_every_figure_whoever_is_beside_it(saved: Path) -> None:
    placed, served = load(saved / "placed"), load(saved / "served")

    def looks(result: Any, names: tuple[str, ...], figure: str) -> dict[str, tuple[str, str]]:
        fewer = replace(result, allocators={name: result.allocators[name] for name in names})
        return {curve.name: (curve.line.color, curve.line.dash) for curve in draw(fewer, figure).data}

    every = ("reservation", "exact-fit", "paged")
    whole = looks(placed, every, "capacity")
    assert len(set(whole.values())) == 3
    for result, figure in ((placed, "refusals"), (placed, "refused-by-length"), (served, "queue"), (served, "ttft")):
        for names in (every, every[1:], every[2:], every[:1]):
            assert looks(result, names, figure) == {name: whole[name] for name in names}
    strangers = styles([*(f"mine:{k}" for k in range(21)), *every])
    assert len({(line["color"], line["dash"]) for line, _ in strangers}) == 24


def test_preemptions_of_one_allocator_are_an_area_and_of_several_are_lines_unlike_each_other(saved: Path) -> None:
    result = load(saved / "served")
    (alone,) = draw(result, "preemptions").data
    assert list(alone.y) == result.allocators["paged"].series.preemptions and sum(alone.y) > 0
    assert (alone.fill, alone.line.dash, alone.line.shape) == ("tozeroy", "solid", "vh")
    paged = result.allocators["paged"]
    both = draw(replace(result, allocators={"paged": paged, "again": paged}), "preemptions").data
    assert [curve.fill for curve in both] == [None, None] and len({curve.line.dash for curve in both}) == 2


def test_the_list(pagesim: Any) -> None:
    status, out, err = pagesim("roomy", "--list")
    assert (status, err) == (0, "")
    assert "capacity" in out
    assert "Who is refused (not here: nothing was refused)" in out
    document = json.loads(pagesim("single", "--list", "--json")[1])
    assert (document["schema"], document["result"]) == ("pagesim.plot/1", "pagesim.serve/1")
    assert {each["name"]: each["lacking"] for each in document["figures"] if each["lacking"]} == {
        "tpot": "no request has a time per further token",
        "preemptions": "nobody was preempted",
    }


REFUSED = {
    "placed": "--list or --figure NAME; accepted: one of the two",
    "placed --list --figure account": "--list or --figure NAME; accepted: one of the two",
    "placed --list --out a.html": "--out and --list, which draws nothing; accepted: --out with --figure NAME",
    "placed --figure account": "--figure without --out; accepted: --out FILE, ending in .html, .png, .svg or .pdf",
    "placed --figure pie --out a.html": "figure 'pie' is unknown; accepted: account, refusals, refused-by-length, ",
    "roomy --figure refusals --out a.html": "figure 'refusals': nothing was refused in this result; accepted: account",
    "placed --figure account --out a.gif": "a.gif: ends in '.gif'; accepted: .html, .png, .svg, .pdf",
    "placed --figure account --out a.html --width 90": "a.html: a page is as wide as its window; accepted: --width ",
    "placed --figure account --out a.png --width 0": "--width 0; accepted: more than 0, up to 10000",
    "placed --figure account --out a.png --scale nan": "--scale nan; accepted: more than 0, up to 10",
    "placed --figure account --out no/a.html": "no/a.html: there is no folder no",
    "missing --list": "missing: cannot be read (No such file or directory)",
    "placed.html --list": "placed.html: not a saved run (",
    "other.json --list": "other.json: schema pagesim.replay/1; accepted: pagesim.run/1, pagesim.serve/1",
    "linked.html --figure account --out linked.html": "linked.html: is named twice, to be read or written",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_one_line(saved: Path, pagesim: Any, words: str) -> None:
    (saved / "other.json").write_text('{"schema": "pagesim.replay/1"}')
    (saved / "linked.html").write_bytes((saved / "placed" / "run.json").read_bytes())
    status, out, err = pagesim(*words.split())
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {REFUSED[words]}")
    assert err.count("\n") == 1


DAMAGE = {  # (result, where in it, what stands there): what is said
    ("placed", "allocators.paged.series.unusable", ()): "has 0 values; accepted: 200",
    ("placed", "allocators.paged.series.used", (2.0,) * 200): "has 2; accepted: 0 or more, shares up to 1",
    ("placed", "allocators.paged.series.free", (-1.0,) * 200): "has -1; accepted: 0 or more",
    ("placed", "allocators.paged.occupied_at_refusal", (0.5,)): "has 1 values; accepted: none, or 101",
    ("placed", "allocators", None): "is empty; accepted: one or more",
    ("placed", "pool.block_size", 0): "is 0; accepted: 1 or more",
    ("placed", "config.max_model_len", 0): "is 0; accepted: 1 to 20000",
    ("placed", "config.max_model_len", "x"): "is 'x'; accepted: 1 to 20000",
    ("placed", "config.max_model_len", 10**30): "accepted: 1 to 20000",
    ("served", "allocators.paged.percentiles.tpot_s", (1.0,)): "has 1 values, or is missing; accepted: none, or 101",
    ("served", "allocators.paged.series.end_s", ()): "is empty; accepted: one or more intervals",
}


@pytest.mark.parametrize("case", DAMAGE, ids=lambda case: f"{case[1]}-{str(case[2])[:9]}")
def test_a_damaged_result_is_one_line_that_names_the_field(saved: Path, pagesim: Any, case: Any) -> None:
    name, field, value = case
    whole = json.loads((saved / name / "run.json").read_text())
    place = whole
    *path, last = field.split(".")
    for key in path:
        place = place[key]
    place[last] = {} if value is None else value
    (saved / "damaged.json").write_text(json.dumps(whole))
    status, out, err = pagesim("damaged.json", "--list")
    assert (status, out) == (2, "")
    assert err.startswith(f"error: damaged.json: {field} ") and err.count("\n") == 1
    assert DAMAGE[case] in err


def test_a_report_of_a_run_that_rejects_all_says_that_there_is_nothing_to_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.jsonl").write_text('{"arrival_s": 0, "prompt_tokens": 600, "output_tokens": 10}\n')
    words = ["run", "--trace", "long.jsonl", "--pool-tokens", "512", "--max-model-len", "512", "--html", "a.html"]
    assert called(words, monkeypatch) == 0
    assert "There is no map of the pool: nothing came into it" in Path("a.html").read_text()


def test_a_report_whose_name_is_no_text_names_it_in_escapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "--load", "high", "--requests", "200", "--runs", "1", "--html", "a\udcff.html"]
    assert called(words, monkeypatch) == 0
    assert "a\\udcff.html" in Path("a\udcff.html").read_text(encoding="utf-8")


def test_a_name_with_a_line_end_in_it_is_told_in_one_line(pagesim: Any) -> None:
    assert pagesim("placed", "--figure", "a\nb", "--out", "a.html")[2].startswith("error: figure 'a\\nb' is unknown;")


def test_without_kaleido_an_image_is_refused_and_nothing_is_written(
    saved: Path, pagesim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kaleido", None)
    status, _, err = pagesim("placed", "--figure", "account", "--out", "never.png")
    assert status == 2
    assert err.startswith("error: a .png is drawn by kaleido, which is not installed; accepted: pip install 'pagesim[i")
    assert not (saved / "never.png").exists()


class ChromeNotFoundError(RuntimeError):
    """As choreographer, which starts the browser for kaleido, names it."""


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ChromeNotFoundError(), "a .pdf is drawn by a browser, and none could be started; accepted: install Chrome"),
        (
            ValueError("a bad\nfigure"),
            "kaleido could not draw a .pdf (a bad figure); accepted: a figure that it can, or --out",
        ),
    ],
)
def test_what_goes_wrong_in_kaleido_is_one_line(
    saved: Path, pagesim: Any, monkeypatch: pytest.MonkeyPatch, fault: Exception, words: str
) -> None:
    def fails(*_: object, **__: object) -> bytes:
        raise fault

    monkeypatch.setattr(plotly.io, "to_image", fails)  # first: plotly keeps the kaleido that it finds now
    monkeypatch.setitem(sys.modules, "kaleido", types.ModuleType("kaleido"))
    status, _, err = pagesim("placed", "--figure", "account", "--out", "never.pdf")
    assert status == 2
    assert err.startswith(f"error: {words}")
    assert err.count("\n") == 1
    assert not (saved / "never.pdf").exists()


@pytest.mark.skipif(importlib.util.find_spec("kaleido") is None, reason="the extra `images` is not installed")
@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_an_image(saved: Path, tmp_path: Path, kind: str, begins: bytes) -> None:
    out = tmp_path / f"a.{kind}"
    try:
        write_picture(picture(load(saved / "placed"), "capacity"), out, width_px=400, scale=1)
    except UsageError as error:
        if "none could be started" in str(error):
            pytest.skip("there is no browser")
        raise
    assert out.read_bytes().startswith(begins)


def test_the_docs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line for line in PAGE.splitlines() if line.startswith("pagesim ")]
    assert len(lines) == 6
    for line in lines:
        assert called(shlex.split(line)[1:], monkeypatch) == 0, capsys.readouterr().err
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['account', 'refusals', 'refused-by-length', 'capacity']\n15\n"
