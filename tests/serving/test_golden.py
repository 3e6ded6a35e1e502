"""Recordings of vLLM's own scheduler: every step must agree, and the sums. There is no tolerance."""

import importlib.util
import json
from pathlib import Path

import pytest
from stepper import Stepper

from pagesim.sim.serving.scenario import read_scenario
from pagesim.sim.serving.server import serve
from pagesim.sim.serving.steps import steps, write_steps
from pagesim.sim.serving.steptime import ConstantStep

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "golden"
SYNTHETIC = sorted((ROOT / "tests" / "data" / "golden").glob("*.json.gz"))
TRACES = sorted((SHARED / "traces").glob("*.json.gz")) or [SHARED / "traces" / "missing"]
ONE_STEP = ConstantStep(1.0)

needs_shared = pytest.mark.skipif(not (SHARED / "compare.py").exists(), reason=f"{SHARED} is not there")


def compare(golden_path, rows):
    """The comparer of the recordings' format: (steps that agree, first divergence)."""
    spec = importlib.util.spec_from_file_location("golden_compare", SHARED / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare(module.load_golden(golden_path), rows)


def by_id(path):
    return path.name.removesuffix(".json.gz")


def recorded_rows(path):
    """The busy steps of a recording, in the form of our log."""
    import gzip

    golden = json.loads(gzip.decompress(path.read_bytes()))
    columns = golden["steps"]
    names = ("running", "waiting", "scheduled_tokens", "blocks_used")
    rows = [
        {"step": k, **{name: columns[name][k] for name in names}, "admitted": [], "preempted": [], "finished": []}
        for k in range(len(columns["running"]))
    ]
    for step, name, hit in columns["admitted"]:
        rows[step]["admitted"].append([name, hit])
    for kind in ("preempted", "finished"):
        for step, name in columns[kind]:
            rows[step][kind].append(name)
    return [row for row in rows if row["running"] or row["waiting"]]


def replay(path):
    scenario = read_scenario(path)
    log = serve(scenario.trace, scenario.config, ONE_STEP)
    return scenario, log, steps(log, scenario.ids, by_clock=True)


def check_totals(scenario, log):
    totals = log.totals()
    assert totals == {name: scenario.totals[name] for name in totals}
    assert scenario.totals["steps"] == log.finish_s.max()


@pytest.mark.parametrize("path", SYNTHETIC, ids=by_id)
def test_every_step_of_a_synthetic_recording(path):
    scenario, log, rows = replay(path)
    rows = list(rows)
    for row in rows:
        del row["t"]
    assert rows == recorded_rows(path)
    check_totals(scenario, log)


def test_there_are_recordings():
    assert len(SYNTHETIC) == 31


@needs_shared
@pytest.mark.parametrize("path", TRACES, ids=by_id)
def test_every_step_of_a_recording_of_a_real_trace(path):
    scenario, log, rows = replay(path)
    agree, divergence = compare(path, rows)
    assert divergence is None
    assert agree > 1000
    check_totals(scenario, log)


@needs_shared
def test_the_comparer_reads_the_file_that_is_written(tmp_path):
    path = next(path for path in SYNTHETIC if path.name == "tiny_prefix.json.gz")
    _, _, rows = replay(path)
    out = tmp_path / "steps.jsonl"
    write_steps(out, rows)
    assert compare(path, map(json.loads, out.read_text().splitlines())) == (8, None)


@needs_shared
def test_the_comparer_sees_a_wrong_step():
    path = next(path for path in SYNTHETIC if path.name == "tiny_preempt.json.gz")
    rows = list(replay(path)[2])
    rows[4]["blocks_used"] += 1
    agree, divergence = compare(path, rows)
    assert agree == 4
    assert divergence[0] == 4


@pytest.mark.parametrize("path", [path for path in SYNTHETIC if "starve" not in path.name], ids=by_id)
def test_the_judge_agrees_with_the_recording_too(path):
    scenario = read_scenario(path)
    judge = Stepper(scenario.trace, scenario.config, ONE_STEP).run()
    named = {"admitted": lambda pair: [scenario.ids[pair[0]], pair[1]]}
    rows = []
    for row in judge.rows:
        row = {**row, "step": int(row["t"])}
        del row["t"]
        for kind in ("admitted", "preempted", "finished"):
            row[kind] = list(map(named.get(kind, scenario.ids.__getitem__), row[kind]))
        rows.append(row)
    assert rows == recorded_rows(path)
    assert judge.totals == {name: scenario.totals[name] for name in judge.totals}
