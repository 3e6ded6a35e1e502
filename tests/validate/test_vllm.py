"""vLLM's scheduler beside the simulator: told and read rightly (a stand-in), and the same (where vLLM is installed)."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vllm_standin
from hypothesis import HealthCheck, given, settings
from replayed import OURS, RECORDINGS, experiments, golden, recorded

pytest.importorskip("torch", reason="vLLM's pool has a torch type: needs pagesim[engine]")

from pagesim import cli
from pagesim.sim.errors import UsageError
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.scenario import read_scenario
from pagesim.sim.serving.steptime import ConstantStep
from pagesim.sim.trace import HashIds, Labels, Trace
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.logical import Logical, replay_logically
from pagesim.validate.vllm import scheduling, versions
from pagesim.validate.vllm.scheduling import VllmScheduling, vllm_machine

INSTALLED = "the vLLM that is installed"


BOTH = (
    vllm_standin.STAND_IN,
    pytest.param(INSTALLED, marks=pytest.mark.filterwarnings("ignore")),  # vLLM's own imports warn
)
FEW = ("tiny_preempt", "tiny_prefix", "cache_salts", "storm_cached", "reserve_isl_false", "long_prefill_threshold")


@pytest.fixture(params=BOTH)
def vllm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == INSTALLED:
        try:
            return versions.installed_version()
        except UsageError as error:
            pytest.skip(str(error))
    vllm_standin.stand_in(monkeypatch)
    monkeypatch.setattr(versions, "version", lambda name: versions.SUPPORTED[-1])
    return vllm_standin.STAND_IN


def compare(experiment: Experiment, **changes: Any) -> Logical:
    """`changes`: rules that vLLM is told otherwise than the simulator."""
    told = replace(experiment.config, **changes)
    return replay_logically(
        experiment, make_machine=lambda given: replace(vllm_machine(given), scheduler=VllmScheduling(told))
    )


@pytest.mark.parametrize(
    ("vllm", "path"),
    [
        *((vllm_standin.STAND_IN, OURS / f"{name}.json.gz") for name in FEW),
        *(pytest.param(INSTALLED, path, marks=pytest.mark.filterwarnings("ignore")) for path in RECORDINGS),
    ],
    ids=lambda value: value.name.split(".")[0] if isinstance(value, Path) else value,
    indirect=["vllm"],
)
def test_recordings(vllm: str, path: Path) -> None:
    found = replay_logically(recorded(path), make_machine=vllm_machine)
    assert found.findings == () and found.divergence is None and found.other is not None
    assert found.other.side == "vllm"
    assert found.other.totals == read_scenario(path).totals | {"steps": len(found.other.steps)}


def drawn(experiment: Experiment) -> None:
    """Adapters have names that no salt has: vLLM takes the two for one another, see below."""
    config, trace = experiment.config, experiment.trace
    if config.allocator != "paged" or config.fork != "none":
        config = replace(config, allocator="paged", fork="none")
    if trace.adapter is not None:
        names = [trace.adapter[row] for row in range(len(trace))]
        trace = replace(trace, adapter=Labels.of([None if name is None else f"adapter {name}" for name in names]))
    config = replace(config, token_budget=max(config.token_budget, config.max_num_seqs))
    found = replay_logically(Experiment(trace, config, experiment.step_time), make_machine=vllm_machine)
    assert found.findings == () and found.divergence is None


def test_drawn(vllm: str) -> None:
    checked = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    checked(given(experiments())(drawn))()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tiny_preempt", {"num_blocks": 11}),
        ("tiny_preempt", {"block_size": 3}),
        ("chunked_64", {"token_budget": 65}),
        ("max_seqs_6", {"max_num_seqs": 7}),
        ("tiny_prefix", {"prefix_caching": False}),
        ("reserve_isl_true", {"reserve_full_isl": False}),
        ("watermark_5pct", {"watermark": 0.0}),
        ("long_prefill_threshold", {"long_prefill_threshold": 0}),
    ],
)
def test_every_rule_reaches_vllm(vllm: str, name: str, changes: dict[str, Any]) -> None:
    experiment = golden(name)
    assert compare(experiment).agrees
    assert compare(experiment, **changes).divergence is not None


def test_priorities_and_whole_prompts_reach_vllm(vllm: str) -> None:
    trace = Trace(np.zeros(6), np.full(6, 9), np.full(6, 8), priority=np.array([3, 1, 2, 3, 1, 2]))
    for rules, changes in (({"policy": "priority"}, {"policy": "fcfs"}), ({}, {"chunked_prefill": False})):
        config = ServingConfig(num_blocks=12, block_size=4, token_budget=20, max_num_seqs=4, max_model_len=20, **rules)
        experiment = Experiment(trace, config, ConstantStep(1.0))
        assert compare(experiment).agrees
        assert compare(experiment, **changes).divergence is not None


@pytest.mark.parametrize("what", ["salt", "adapter"])
def test_salts_and_adapters_reach_vllm(vllm: str, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    experiment = golden("cache_salts")
    if what == "adapter":
        trace = experiment.trace
        experiment = replace(experiment, trace=replace(trace, adapter=trace.cache_salt, cache_salt=None))
    assert replay_logically(experiment, make_machine=vllm_machine).agrees
    original = VllmScheduling.add

    def without(self: VllmScheduling, sequence: Any) -> None:
        setattr(sequence, what, None)
        original(self, sequence)

    monkeypatch.setattr(VllmScheduling, "add", without)
    assert replay_logically(experiment, make_machine=vllm_machine).divergence is not None


def test_what_could_never_fit_is_not_given_to_vllm(vllm: str) -> None:
    trace = Trace(np.zeros(3), np.array([6, 9, 30]), np.array([5, 5, 1]))
    config = ServingConfig(num_blocks=4, block_size=4, max_model_len=20, max_num_seqs=8)
    found = replay_logically(Experiment(trace, config, ConstantStep(1.0)), make_machine=vllm_machine)
    assert found.agrees and found.not_offered == 1
    assert found.other is not None and found.other.rejected == {1}  # 13 slots, of 12


def test_vllm_takes_an_adapter_for_a_salt_of_the_same_name(vllm: str) -> None:
    """In the first block, whose hash takes in the two names side by side, with no word of which is which."""
    ids = HashIds.of([[1, 2, 3], [1, 2, 3]])
    names = {"adapter": Labels.of(["a", None]), "cache_salt": Labels.of([None, "a"])}
    trace = Trace(np.arange(2.0), np.full(2, 12), np.full(2, 3), hash_ids=ids, hash_block_tokens=4, **names)
    config = ServingConfig(num_blocks=20, block_size=4, max_model_len=20, prefix_caching=True)
    found = replay_logically(Experiment(trace, config, ConstantStep(1.0)), make_machine=vllm_machine)
    if vllm == vllm_standin.STAND_IN:
        assert found.agrees
    else:
        assert found.divergence is not None and found.divergence.columns[-1] == "admitted"
        assert found.divergence.other is not None and found.divergence.other.admitted == ((1, 4),)


def test_a_vllm_that_names_other_victims_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    vllm_standin.stand_in(monkeypatch)
    monkeypatch.setattr(vllm_standin.Scheduler, "_preempt_request", lambda self, request, timestamp: None)
    original = vllm_standin.Scheduler.schedule

    def schedule(self: Any) -> Any:
        decided = original(self)
        decided.preempted_req_ids = set()
        return decided

    monkeypatch.setattr(vllm_standin.Scheduler, "schedule", schedule)
    found = replay_logically(golden("tiny_preempt"), make_machine=vllm_machine)
    assert found.other is None and found.divergence is not None and found.divergence.number == 4
    assert any(line.startswith("vllm: broke off in step 4, AssertionError in scheduling.py") for line in found.findings)


def test_rules_that_vllm_lacks_or_refuses_are_refused(vllm: str) -> None:
    trace = Trace(np.zeros(1), np.ones(1, np.int64), np.ones(1, np.int64))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"allocator": "reservation"}, "--allocator reservation: vLLM has no such rule; accepted: paged"),
        ({"fork": "cow"}, "--fork cow: vLLM has no such rule; accepted: none"),
        ({"token_budget": 100}, "vLLM refuses the rules: max_num_batched_tokens"),
    ]
    for rules, line in cases:
        with pytest.raises(UsageError, match=line):
            vllm_machine(Experiment(trace, ServingConfig(**rules), ConstantStep(1.0)))


def test_versions_are_accepted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, line in (
        ("0.28.1", "vLLM 0.28.1 is installed"),
        ("1.0", "vLLM 1.0 is installed"),
        (None, "not installed"),
    ):

        def version(name: str, found: str | None = found) -> str:
            if found is None:
                raise PackageNotFoundError(name)
            return found

        monkeypatch.setattr(versions, "version", version)
        with pytest.raises(UsageError, match=rf"{line}.*accepted: .*0\.29\.0"):
            versions.installed_version()
    monkeypatch.setattr(versions, "version", lambda name: "0.29.0+cpu")
    assert versions.installed_version() == "0.29.0+cpu"


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*given: object) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagesim", "validate", "vllm", *map(str, given)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, *capsys.readouterr()

    return call


def test_the_command(vllm: str, validate: Any) -> None:
    status, out, _ = validate("--load", "high", "--requests", 60, "--num-blocks", 100, "--prefix-caching", "--json")
    document = json.loads(out)
    assert status == 0 and document["schema"] == "pagesim.validate-vllm/1" and document["agrees"]
    assert document["requests"] == 60 and document["rules"]["num_blocks"] == 100
    assert document["logical"]["totals"]["vllm"]["preemptions"] > 0
    totals = document["logical"]["totals"]
    assert {name: totals["vllm"][name] for name in totals["simulator"]} == totals["simulator"]
    status, out, _ = validate("--scenario", OURS / "tiny_preempt.json.gz")
    assert status == 0 and "They agree in every one of 10 steps over 3 requests." in out


def test_a_difference_is_exit_status_1_and_shown(vllm: str, validate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    original = scheduling.make_scheduler
    monkeypatch.setattr(scheduling, "make_scheduler", lambda rules: original(replace(rules, num_blocks=11)))
    status, out, _ = validate("--scenario", OURS / "tiny_preempt.json.gz")
    assert status == 1 and "first divergence, step 4: " in out and "They differ: 4 steps from the start agree." in out
    assert "simulator     computed: " in out and "vllm          computed: " in out
    status, out, _ = validate("--scenario", OURS / "tiny_preempt.json.gz", "--json")
    divergence = json.loads(out)["logical"]["divergence"]
    assert status == 1 and divergence["vllm"]["preempted"] == [] and divergence["simulator"]["preempted"] == ["C"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ((), "vLLM is not installed; accepted: pip install vllm==0.29.0"),
        (("--scenario", "n8", "--seed", "1"), "--seed and --scenario"),
        (("--speed", "2"), "--speed is of a server; accepted: together with --server"),
        (("--server", "ftp://here"), "--server ftp://here; accepted: the address of a server"),
        (("--server", "http://127.0.0.1:x"), "accepted: the address of a server"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_2(
    validate: Any, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], line: str
) -> None:
    def nothing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", nothing)
    status, out, err = validate(*given)
    assert status == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and line in err
