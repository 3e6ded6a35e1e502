"""`pagesim validate capacity`: a device filled until it refuses, an engine started, its caches filled; and faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs pagesim[engine]")
if not sys.platform.startswith("linux"):
    pytest.skip("only Linux enforces a limit on the memory of a process", allow_module_level=True)

from pagesim import cli
from pagesim.engine.block_pool import BlockPool
from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError
from pagesim.validate.capacity.grain import grain
from pagesim.validate.capacity.held import hold
from pagesim.validate.capacity.predicted import Predicted
from pagesim.validate.capacity.result import CapacityResult
from pagesim.validate.capacity.run import CHILD, check_memory, lengths_of
from pagesim.validate.capacity.seen import Held, Probed, Started

MIB = 2**20
CONFIG = EngineConfig("random:tiny", memory=64 * MIB, max_model_len=512, token_budget=256, max_num_seqs=16)
LENGTHS = [512, 100]
TOKEN_BYTES = 2 * 2 * 64 * 4  # K and V, layers, one head of 64, float32
HERE = Path(__file__).parent


def capacity(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagesim", "validate", "capacity", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What each fault let the probe, or the start, see."""
    words = [json.dumps(asdict(CONFIG)), json.dumps(LENGTHS), str(grain("cpu", 1, 1).books_bytes(64 * MIB // 2**14))]
    command = [sys.executable, str(HERE / "faulty_capacity.py"), *words]
    environment = {**os.environ, **{name: value for name, value in CHILD.items() if value is not None}}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def result(seen: dict[str, Any], fault: str) -> CapacityResult:
    """The fault's half beside the other half as it should be."""
    halves = {work: seen[f"none in the {work}"][1] for work in ("probe", "start")}
    work, found = seen[fault]
    assert "broke" not in found, found
    halves[work] = found
    started = halves["start"]
    if isinstance(started, str):
        return CapacityResult(CONFIG, Predicted.of(CONFIG), Probed(**halves["probe"]), started, ())
    held = tuple(Held(each["kind"], each["tokens"], each["count"], tuple(each["findings"])) for each in started[1])
    return CapacityResult(CONFIG, Predicted.of(CONFIG), Probed(**halves["probe"]), Started(**started[0]), held)


def differing(found: CapacityResult) -> set[str]:
    return {row.id for row in found.rows if row.agrees is False}


def test_without_a_fault_everything_agrees_and_the_counts_are_those_of_the_arithmetic(seen: dict[str, Any]) -> None:
    found = result(seen, "none in the probe")
    assert found.agrees and not found.findings and not differing(found)
    rows = {row.id: row for row in found.rows}
    weights, activations = rows["weights_bytes"].measured, found.document()["start"]["activation_bytes"]
    assert weights is not None
    blocks = (64 * MIB - weights - activations) // (16 * TOKEN_BYTES)
    assert rows["num_blocks"].predicted == (blocks, blocks) and rows["num_blocks"].measured == blocks
    counted = rows["reservations"].measured
    assert counted is not None
    assert abs(counted - (64 * MIB - weights) // (512 * TOKEN_BYTES)) <= 4  # 2 MiB are the process's own affair
    assert rows["paged/100"].measured == (blocks - 1) // 7
    assert rows["reservation/100"].measured == blocks * 16 // 512
    assert rows["exact-fit/100"].measured == blocks * 16 // 100


@pytest.mark.parametrize(
    ("fault", "rows", "finding"),
    [
        ("half_a_buffer", {"reservations", "touched_bytes"}, "nothing refused"),
        ("buffers_nobody_writes", {"touched_bytes"}, None),
        ("a_second_copy_of_the_weights", set(), "beside the weights"),
        ("a_limit_that_nobody_enforces", {"reservations"}, "nothing refused"),
        ("a_block_too_many", {"num_blocks", "cache_bytes"}, None),
        ("a_cache_twice", set(), "no memory for what its own budget planned"),
        ("a_slot_too_many_for_exact_fit", {"exact-fit/100"}, None),
    ],
)
def test_a_planted_fault_is_found(seen: dict[str, Any], fault: str, rows: set[str], finding: str | None) -> None:
    found = result(seen, fault)
    assert not found.agrees
    assert differing(found) == rows
    assert any(finding in line for line in found.findings) if finding else not found.findings


def test_a_leaked_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    release = BlockPool.release
    monkeypatch.setattr(BlockPool, "release", lambda self, table: release(self, table[1:]))
    held = hold(CONFIG, 17, 512, "paged", 128)
    assert held.count == 2
    assert any("2 blocks are still held by nobody" in line for line in held.findings)
    assert any("2 the first time, 1 once they were gone" in line for line in held.findings)


def test_a_pool_with_a_block_less_is_found(monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any]) -> None:
    assert hold(CONFIG, 17, 512, "paged", 128).count == 2
    make = BlockPool.__init__

    def short(self: BlockPool, num_blocks: int) -> None:
        make(self, num_blocks)
        self.take(1)

    monkeypatch.setattr(BlockPool, "__init__", short)
    held = hold(CONFIG, 17, 512, "paged", 128)
    assert held.count == 1 != Predicted.of(CONFIG).capacity(CONFIG, 17, 512).servable_sequences(128)
    assert held.findings


def test_a_block_that_two_sequences_get_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = BlockPool.take
    monkeypatch.setattr(BlockPool, "take", lambda self, count: [block % 4 for block in take(self, count)])
    held = hold(CONFIG, 17, 512, "paged", 128)
    assert any("slots were given to several sequences" in line for line in held.findings)
    assert any("null block" in line for line in held.findings)


def test_a_pool_too_small_for_one_reservation_holds_none() -> None:
    assert hold(CONFIG, 17, 512, "reservation", 128) == Held("reservation", 128, 0, ())


def test_the_note_s_card_holds_its_573_reservations() -> None:
    config = EngineConfig("random:qwen2.5-0.5b", "cuda", utilization=0.85, max_model_len=2048)
    predicted = Predicted.of(config)
    total, context, weights = 14_912 * MIB, round(0.2 * 2**30), 988_065_536
    assert predicted.weights_bytes == weights
    assert predicted.bare_card(total, weights, 2048) == 573
    reservation = predicted.cache.sequence_bytes(2048)
    assert grain("cuda", reservation, weights).counts(total - context - weights, reservation) == (573, 573)
    assert predicted.estimated_blocks(config, "Tesla T4") == 929_856 // 16


def test_small_buffers_on_a_card_are_cut_out_of_larger_ones() -> None:
    of_4 = grain("cuda", 4 * MIB, 0)  # five to 20 MiB
    assert of_4.each_bytes == 0 and of_4.counts(39 * MIB, 4 * MIB) == (4, 9)
    of_3 = grain("cuda", 3 * MIB, 0)  # six to 20 MiB
    assert of_3.each_bytes == -(-20 * MIB // 6) - 3 * MIB


def test_the_command_in_json_and_as_a_table() -> None:
    words = ["--model", "random:tiny", "--memory", "64MiB", "--max-model-len", 512, "--at", 100]
    done = capacity(*words, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert document["schema"] == "pagesim.validate-capacity/1" and document["agrees"]
    assert document.keys() == {"schema", "agrees", "engine", "probe", "start", "rows", "findings"}
    for row in document["rows"]:
        assert row.keys() == {"id", "what", "unit", "predicted", "measured", "agrees", "remark"}
    assert {"paged/512", "paged/100", "exact-fit/128"} <= {row["id"] for row in document["rows"]}


@pytest.mark.parametrize(("fault", "status"), [("none in the probe", 0), ("a_block_too_many", 1)])
def test_a_difference_is_exit_status_1(
    seen: dict[str, Any], fault: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pagesim.commands import validate_capacity

    found = result(seen, fault)
    assert found.agrees is (status == 0)
    monkeypatch.setattr(validate_capacity, "carry_out", lambda config, at: found)
    said = {}
    for form in ("--json", "--at=100"):  # the second in a table
        monkeypatch.setattr(sys, "argv", ["pagesim", "validate", "capacity", form])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert (stopped.value.code or 0) == status
        said[form] = capsys.readouterr().out
    assert json.loads(said["--json"])["agrees"] is found.agrees


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--memory", "1MiB"), "memory is 1,048,576 bytes, and weights take"),
        (("--kv-bytes", "1MiB", "--memory", "2MiB"), "kv_bytes and memory are both given"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_status_2(words: tuple[object, ...], line: str) -> None:
    done = capacity("--model", "random:tiny", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and line in done.stderr


def test_more_memory_than_there_is_and_lengths_past_the_longest_are_refused() -> None:
    config = EngineConfig("random:tiny", memory=2**60, max_model_len=512)
    with pytest.raises(UsageError, match=r"--memory is .* are to be had; accepted: less"):
        check_memory(config, Predicted.of(config))
    with pytest.raises(UsageError, match="--at 513; accepted: 1 to --max-model-len, 512"):
        lengths_of(512, [513])


def test_without_torch_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    places = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", places)
    done = capacity("--model", "random:tiny", "--memory", "64MiB")
    assert done.returncode == 2
    assert done.stderr == "error: torch is not installed; accepted: pip install 'pagesim[engine]'\n"
