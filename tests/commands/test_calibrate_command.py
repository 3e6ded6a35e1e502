"""`pagesim calibrate` as a person calls it: the profile, the JSON, what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.profile import read_profile
from pagesim.sim.jsontext import dumps
from pagesim.sim.serving.steptime import LinearStep
from pagesim.validate.calibrate.rows_csv import read_rows

DOCUMENT = {
    "schema", "measured_on", "source", "profile", "form", "coefficients", "fitted", "held_out",
    "held_out_in_t4_form", "groups", "noise",
}  # fmt: skip
RESIDUALS = {"rows", "r2", "total", "median_error", "p90_error"}
TINY = ("--model", "random:tiny", "--num-blocks", 33, "--max-model-len", 128)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Batches of 1 ms, and 10 us a token, 0.1 us a pair, 1 us a context, 50 us a sequence, 2 ms for a prefill."""
    monkeypatch.chdir(tmp_path)
    lines = ["decodes,contexts,prefills,seconds"]
    for decodes in (0, 1, 5):
        for each in (10, 200):
            for tokens in (0, 3, 40, 100):
                if decodes or tokens:
                    pairs = tokens * (tokens + 1) // 2
                    seconds = 1e-3 + 1e-5 * (decodes + tokens) + 1e-7 * pairs + 1e-6 * decodes * each
                    seconds += 5e-5 * (decodes + bool(tokens)) + 2e-3 * bool(tokens)
                    lines.append(f"{decodes},{decodes * each},{f'{tokens}@0' if tokens else ''},{seconds!r}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "rows.csv"


def test_a_profile_of_a_csv_is_taken_by_run(pagesim: Any, rows: Path) -> None:
    outcome = pagesim("calibrate", "--csv", rows, "--out", "made.json", "--json")
    document = outcome.json()
    assert outcome.status == 0 and document.keys() == DOCUMENT
    assert document["schema"] == "pagesim.calibration/1" and document["noise"] is None
    assert document["fitted"].keys() == document["held_out"].keys() == RESIDUALS
    curve = document["coefficients"].pop("curve")
    assert curve and all(seconds == pytest.approx(1e-5 * tokens) for tokens, seconds in curve)
    assert document["coefficients"] == pytest.approx(
        {
            "base_s": 1e-3,
            "per_token_s": 1e-5,
            "per_pair_s": 1e-7,
            "per_sequence_s": 5e-5,
            "per_context_s": 1e-6,
            "prefill_s": 2e-3,
        },
        rel=1e-6,
    )
    text = Path("made.json").read_text()
    profile = read_profile(Path("made.json"))
    assert dumps(profile.as_json()) + "\n" == text
    assert profile.name == "made" and len(profile.held_out) == len({g["name"] for g in document["groups"]}) // 4
    served = ("run", "--on-full", "queue", "--num-blocks", 200, "--requests", 50, "--runs", 1, "--load", 1, "--json")
    profiled = pagesim(*served, "--step-time", "made.json").json()
    spelled = pagesim(*served, "--step-time", "linear:1e-3:1e-5:1e-7:5e-5:1e-6:2e-3").json()
    ours, theirs = (each["allocators"]["paged"]["e2e_s"]["p50"]["mean"] for each in (profiled, spelled))
    assert ours == pytest.approx(theirs, rel=1e-6)


def test_the_table(pagesim: Any, rows: Path) -> None:
    outcome = pagesim("calibrate", "--csv", rows)
    assert outcome.status == 0 and "per_context_s" in outcome.out and "held out" in outcome.out
    assert "the rows of rows.csv, read" in outcome.out and "not known here" in outcome.out
    said = " ".join(outcome.out.split())  # n decodes, in ms: 1 + n*(0.01 + 256*0.001 + 0.05)
    assert "each: of 1, 1.316 ms; of 4, 2.264 ms; of 16, 6.056 ms; of one prompt of 256 tokens: 8.9 ms." in said
    assert outcome.out.endswith("profile: pagesim-profile.json\n") and Path("pagesim-profile.json").is_file()


@pytest.fixture
def made_up_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine makes its batches, and each takes what a model says: a fit that no busy machine can spoil."""
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")
    from pagesim.validate.calibrate.timing import Timer

    serve, model = Timer.serve, LinearStep(4e-4, 1.3e-5, 2e-8, 2.9e-5, 2.5e-7, 3e-4)

    def told(self: Timer, *given: Any) -> Any:
        return [(shape, shape.seconds(model)) for shape, _ in serve(self, *given)]

    monkeypatch.setattr(Timer, "serve", told)


@pytest.mark.usefixtures("made_up_times")
def test_an_engine_is_measured_and_its_rows_give_the_same_profile(pagesim: Any, rows: Path) -> None:
    few = ("--sequences", 1, "--longest", 64, "--repeats", 1, "--threads", 1)
    outcome = pagesim("calibrate", *TINY, *few, "--rows", "own.csv", "--out", "a.json", "--json")
    assert outcome.status == 0, outcome.err
    document = outcome.json()
    assert "random:tiny in float32 on cpu" in document["measured_on"] and "1 thread," in document["measured_on"]
    assert len(document["noise"]["repeats_s"]) == 1 and document["noise"]["steps_spread"] is None
    again = pagesim("calibrate", "--csv", "own.csv", "--out", "b.json", "--json").json()
    assert again["coefficients"] == document["coefficients"] and again["groups"] == document["groups"]
    profile = json.loads(Path("a.json").read_text())
    assert profile["measured_on"] == document["measured_on"] and "R^2" in profile["assumed"][1]


def test_rows_are_kept_where_the_fit_fails(pagesim: Any, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the engine's model needs torch, an extra")

    def none(times: Any, split: bool = True) -> None:
        raise UsageError("no fit")

    monkeypatch.setattr("pagesim.validate.calibrate.calibration.fit_step_time", none)
    few = ("--sequences", 1, "--longest", 64, "--repeats", 1)
    outcome = pagesim("calibrate", *TINY, *few, "--rows", "own.csv", "--out", "a.json")
    assert outcome.status == 2 and "no fit" in outcome.err and not Path("a.json").exists()
    assert len(read_rows(Path("own.csv"))) > 20


@pytest.mark.usefixtures("made_up_times")
def test_ctrl_c_leaves_the_rows_of_the_repeats_that_are_over(
    pagesim: Any, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pagesim.validate.calibrate.timing import Timer

    few = ("--sequences", 1, "--longest", 64, "--threads", 1)
    assert pagesim("calibrate", *TINY, *few, "--repeats", 1, "--rows", "whole.csv", "--out", "a.json").status == 0
    serve, left = Timer.serve, [2 + 2 * 4 - 1]  # two to warm up, then two repeats of four loads, less one

    def stopped(self: Timer, *given: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return serve(self, *given)

    monkeypatch.setattr(Timer, "serve", stopped)
    outcome = pagesim("calibrate", *TINY, *few, "--repeats", 3, "--rows", "own.csv", "--out", "b.json")
    assert outcome.status == 130 and not Path("b.json").exists()
    assert Path("own.csv").read_text() == Path("whole.csv").read_text()


def test_a_profile_that_cannot_be_written_leaves_the_old_one(
    pagesim: Any, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("made.json").write_text("old")

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    outcome = pagesim("calibrate", "--csv", rows, "--out", "made.json")
    assert outcome.status == 2 and "made.json: cannot be written" in outcome.err
    assert Path("made.json").read_text() == "old" and sorted(p.name for p in Path().iterdir()) == [
        "made.json", "rows.csv",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "neither --model nor --csv given"),
        ([*TINY, "--csv", "rows.csv"], "--model and --csv given"),
        (["--csv", "rows.csv", "--repeats", 3], "--repeats and --csv given"),
        (["--csv", "rows.csv", "--rows", "b.csv"], "--csv and --rows given"),
        (["--csv", "rows.csv", "--device", "cuda"], "--device is given, and no engine"),
        (["--csv", "rows.csv", "--out", "rows.csv"], "rows.csv: is named twice"),
        (["--csv", "none.csv"], "none.csv: cannot be read"),
        ([*TINY, "--threads", 100_000], "--threads 100000; accepted: 1 to "),
        (["--csv", "rows.csv", "--out", "nowhere/a.json"], "there is no folder nowhere"),
        ([*TINY, "--repeats", 0], "--repeats 0; accepted: 1 or more"),
        ([*TINY, "--sequences", 1000], "--sequences 1000; accepted: 1 to 256"),
        ([*TINY, "--max-num-seqs", 1], "--max-num-seqs 1: every step has one sequence"),
        ([*TINY, "--longest", 4096], "--longest 4096; accepted: 64 to 128"),
        ([*TINY, "--block-size", 0], "block_size is 0"),
    ],
    ids=lambda value: " ".join(map(str, value))[-30:].replace("/", "_") if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_one_line(words: list[object], message: str, pagesim: Any, rows: Path) -> None:
    if "--model" in words:
        pytest.importorskip("torch", reason="the engine's model needs torch, an extra")
    outcome = pagesim("calibrate", *words)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ") and message in outcome.err and outcome.err.count("\n") == 1


def test_a_csv_needs_no_torch(rows: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; sys.modules['torch'] = None\n"
        "sys.argv = ['pagesim', 'calibrate', '--csv', 'rows.csv', '--json']\n"
        "from pagesim import cli; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=rows.parent, check=False)
    assert done.returncode == 0, done.stderr
