"""The same seed gives the same bytes, whatever else is run, in whatever order, in whatever process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from pagesim.sim.allocators import builtin_names
from pagesim.sim.config import PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.drawing import Drawn
from pagesim.sim.jsontext import dumps
from pagesim.sim.result import RunResult
from pagesim.sim.run import run

SMALL = RunConfig(
    load="1.3",
    pool=PoolConfig(tokens=6_000, block_size=16),
    max_model_len=512,
    workload=WorkloadConfig(num_requests=400),
    num_runs=3,
    seed=11,
)

IN_A_PROCESS = """
from dataclasses import replace
from pagesim.sim.config import PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.jsontext import dumps
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
config = RunConfig(
    load="1.3", pool=PoolConfig(tokens=6_000, block_size=16), max_model_len=512,
    workload=WorkloadConfig(num_requests=400), num_runs=3, seed=11, allocators=({names}),
)
print(dumps(RunResult.of(config, run(config)).document()))
"""


def text(config: RunConfig) -> str:
    return dumps(RunResult.of(config, run(config)).document())


def test_any_order_of_allocators_gives_the_same_bytes() -> None:
    names = ("reservation", "exact-fit", "paged")
    texts = {text(replace(SMALL, allocators=order)) for order in permutations(names)}
    assert len(texts) == 1


def test_another_process_with_other_hashes_gives_the_same_bytes() -> None:
    here = text(replace(SMALL, allocators=("paged", "buddy", "exact-fit:best:compact")))
    script = IN_A_PROCESS.replace("{names}", "'exact-fit:best:compact', 'paged', 'buddy'")
    for seed in ("0", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        told = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert told.stdout == here + "\n"


def test_one_allocators_result_does_not_depend_on_the_others() -> None:
    together = RunResult.of(c := replace(SMALL, allocators=tuple(builtin_names())), run(c)).allocators
    for name in builtin_names():
        alone = RunResult.of(c := replace(SMALL, allocators=(name,)), run(c)).allocators
        assert alone == {name: together[name]}


@pytest.mark.parametrize("growth", ["final", "token"])
def test_checking_changes_nothing(growth: str) -> None:
    config = replace(SMALL, growth=growth, allocators=("buddy", "paged"), num_runs=1)
    checked, plain = (RunResult.of(config, run(config, check=check)) for check in (True, False))
    assert checked == plain


def test_another_seed_gives_other_traces() -> None:
    assert text(SMALL) != text(replace(SMALL, seed=12))


def test_more_runs_keep_the_first_ones() -> None:
    few, many = run(SMALL), run(replace(SMALL, num_runs=6))
    hashes = [replication["sha256"] for replication in many.trace.replications]
    assert hashes[:3] == [r["sha256"] for r in few.trace.replications] and len(set(hashes)) == 6
    for name in SMALL.allocators:
        for mine, other in zip(few.measures[name], many.measures[name], strict=False):
            assert (mine.refused, mine.means.used[0]) == (other.refused, other.means.used[0])


def first(config: RunConfig) -> dict[str, np.ndarray]:
    trace = next(iter(Drawn(config).traces()))
    return {"arrival": trace.arrival_s, "prompt": trace.prompt_tokens, "output": trace.output_tokens}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> set[str]:
    return {name for name in one if np.array_equal(one[name], other[name])}


def test_arrivals_and_lengths_are_streams_of_their_own() -> None:
    base = first(SMALL)
    for arrivals in ("gamma:3", "batch:4", "periodic", "on-off:1:2"):
        other = first(replace(SMALL, workload=replace(SMALL.workload, arrivals=arrivals)))
        assert same(base, other) == {"prompt", "output"}, arrivals
    scaled = first(replace(SMALL, load="0.65"))
    assert same(base, scaled) == {"prompt", "output"}
    assert scaled["arrival"] == pytest.approx(2 * base["arrival"], rel=1e-6), "half the load: twice as slow"


def test_prompts_and_outputs_are_streams_of_their_own() -> None:
    def drawn(prompt: str, output: str) -> dict[str, np.ndarray]:
        workload = replace(SMALL.workload, prompt_lengths=prompt, output_lengths=output)
        return first(replace(SMALL, workload=workload))

    base = drawn("uniform:1:200", "uniform:1:100")
    assert "prompt" in same(base, drawn("uniform:1:200", "lognormal:60:40"))
    assert "output" in same(base, drawn("fixed:7", "uniform:1:100"))
    assert abs(np.corrcoef(base["prompt"], base["output"])[0, 1]) < 4 / np.sqrt(len(base["prompt"]))


def test_drawing_twice_from_one_seed_gives_the_same_traces() -> None:
    drawn = Drawn(SMALL)
    hashes = [replication["sha256"] for replication in run(SMALL).trace.replications]
    assert [t.sha256() for t in drawn.traces()] == [t.sha256() for t in drawn.traces()] == hashes


def test_fewer_requests_are_the_first_of_more() -> None:
    more = first(SMALL)
    fewer = first(replace(SMALL, workload=replace(SMALL.workload, num_requests=100)))
    for name in fewer:
        assert np.array_equal(fewer[name], more[name][:100]), name


def test_the_kernels_of_a_linear_algebra_library_change_no_byte(tmp_path: Path) -> None:
    """A dot product's last bit depends on the processor; a rate made of one would change every arrival."""
    command = [sys.executable, "-m", "pagesim", "run", "--load", "high", "--runs", "1", "--requests", "2000", "--json"]
    answers = set()
    for kernel in ("Haswell", "Prescott", "Nehalem"):
        environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True)
        answers.add(done.stdout)
    assert len(answers) == 1
