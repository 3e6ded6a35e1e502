"""RunConfig, Pool and the saved result: what is refused, in one line; what is saved comes back equal."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagesim.sim.allocators import Pool
from pagesim.sim.config import DEFAULT_ALLOCATORS, PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.errors import PagesimError, UsageError
from pagesim.sim.reading import ReadOptions
from pagesim.sim.result import RunResult
from pagesim.sim.run import expected_requests, run
from pagesim.sim.saved import FILE_NAME
from pagesim.sim.setting import setting
from pagesim.sim.summary import readings, sentences
from pagesim.sim.trace import Trace

SMALL = RunConfig(
    load="1.3",
    pool=PoolConfig(tokens=3_000, block_size=16),
    max_model_len=512,
    workload=WorkloadConfig(num_requests=150),
    num_runs=2,
)

BAD: list[tuple[str, dict[str, Any]]] = [
    ("--max-model-len 1", {"max_model_len": 1}),
    ("--runs 0", {"num_runs": 0}),
    ("--runs -3", {"num_runs": -3}),
    ("--seed -1", {"seed": -1}),
    (f"--seed {2**63}", {"seed": 2**63}),
    ("--requests 0", {"workload": WorkloadConfig(num_requests=0)}),
    ("--requests 1000000000", {"workload": WorkloadConfig(num_requests=10**9)}),
    ("--pool-tokens 0", {"pool": PoolConfig(tokens=0)}),
    ("--pool-tokens -5", {"pool": PoolConfig(tokens=-5)}),
    ("--block-size 0", {"pool": PoolConfig(block_size=0)}),
    ("--warmup 1", {"warmup": 1.0}),
    ("--warmup -0.1", {"warmup": -0.1}),
    ("--warmup nan", {"warmup": math.nan}),
    ("--mean-residence 0", {"mean_residence_s": 0.0}),
    ("--mean-residence inf", {"mean_residence_s": math.inf}),
    ("--mean-residence nan", {"mean_residence_s": math.nan}),
    ("--decode-rate -2", {"decode_rate": -2.0}),
    ("--decode-rate inf", {"decode_rate": math.inf}),
    ("--growth all", {"growth": "all"}),
    ("--residence none", {"residence": "none"}),
    ("--truncate cut", {"workload": WorkloadConfig(truncation="cut")}),  # type: ignore[arg-type]
    ("--on-full wait", {"on_full": "wait"}),
    ("--allocators ", {"allocators": ()}),
    ("--allocators paged,paged", {"allocators": ("paged", "paged")}),
    ("neither --load nor --trace", {"load": None}),
    ("--trace is one run; accepted: --runs 1", {"trace": "some.csv"}),
]


@pytest.mark.parametrize(("said", "values"), BAD, ids=[said for said, _ in BAD])
def test_a_bad_value_is_one_line_that_names_its_option(said: str, values: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        RunConfig(**values)
    assert said in str(refused.value) and "accepted: " in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "values",
    [
        {"max_model_len": 2, "num_runs": 1, "seed": 2**63 - 1, "warmup": 0.999},
        {"pool": PoolConfig(tokens=1, block_size=1), "workload": WorkloadConfig(num_requests=1, truncation="resample")},
        {"load": None, "trace": "some.csv", "num_runs": 1},
        {"growth": "token", "residence": "decode", "decode_rate": 1e-9},
    ],
)
def test_the_nearest_good_values_are_accepted(values: dict[str, Any]) -> None:
    config = RunConfig(**values)
    assert config.as_json() == json.loads(json.dumps(config.as_json())) | {"allocators": DEFAULT_ALLOCATORS}
    with pytest.raises(FrozenInstanceError):
        config.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize("values", [(0, 1, 1), (10, 0, 1), (10, 5, 0), (10, 11, 1), (-1, -2, -3)])
def test_a_pool_that_holds_no_longest_sequence_is_refused(values: tuple[int, int, int]) -> None:
    with pytest.raises(UsageError, match="accepted: ") as refused:
        Pool(*values)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "config",
    [
        replace(SMALL, load="lots"),
        replace(SMALL, max_model_len=4_000),
        replace(SMALL, allocators=("pagd",)),
        replace(SMALL, workload=WorkloadConfig(arrivals="gamma:0")),
        replace(SMALL, workload=WorkloadConfig(lengths="uniform:9:1")),
        replace(SMALL, workload=WorkloadConfig(lengths="file:no/such/file.csv")),
        replace(SMALL, workload=WorkloadConfig(arrivals="servegen:no/such/file.csv")),
        replace(SMALL, load="1e40", workload=WorkloadConfig()),
    ],
)
def test_what_only_the_run_can_see_is_refused_in_one_line_too(config: RunConfig) -> None:
    with pytest.raises(PagesimError) as refused:
        run(config)
    assert "\n" not in str(refused.value) and len(str(refused.value)) > 20


@pytest.fixture(scope="module")
def result() -> RunResult:
    return RunResult.of(SMALL, run(SMALL))


def test_a_result_saved_and_loaded_equals_itself(result: RunResult, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    file = result.save(folder)
    assert file == folder / FILE_NAME
    assert RunResult.load(folder) == result and RunResult.load(file) == result
    before = file.read_bytes()
    assert RunResult.load(file).save(folder).read_bytes() == before
    assert [path.name for path in folder.iterdir()] == [FILE_NAME], "nothing temporary is left"


@pytest.mark.parametrize(
    "config",
    [
        replace(SMALL, num_runs=1),
        replace(SMALL, load="0.01"),
        replace(SMALL, growth="token", warmup=0.5, allocators=("paged", "exact-fit:next:compact")),
        replace(SMALL, workload=replace(SMALL.workload, prompt_lengths="uniform:490:520", output_lengths="fixed:9")),
    ],
    ids=["one run", "nothing refused", "growing", "some rejected"],
)
def test_every_kind_of_result_comes_back(config: RunConfig, tmp_path: Path) -> None:
    result = RunResult.of(config, run(config, check=True))
    assert RunResult.load(result.save(tmp_path)) == result
    for allocator in result.allocators.values():
        fates = allocator.admitted + allocator.refused + allocator.rejected + allocator.dropped
        assert fates == allocator.requests
        assert sum(row.refused for row in allocator.refused_by_length) == allocator.refused
        assert sum(row.requests for row in allocator.refused_by_length) == allocator.requests - allocator.rejected
        assert len(allocator.occupied_at_refusal) == (101 if allocator.refused else 0)
        assert allocator.occupied_at_refusal == sorted(allocator.occupied_at_refusal)
        total = allocator.used.mean + allocator.reserved.mean + allocator.internal.mean + allocator.free.mean
        assert total == pytest.approx(1, abs=1e-8)
    assert len(sentences(result)) == len(result.allocators)
    assert setting(result.config, result.pool, result.trace)["load"]
    assert (readings(result) is None) == all(a.at_refusal is None for a in result.allocators.values())


def test_the_document_is_json_with_a_schema_and_without_what_only_pictures_need(result: RunResult) -> None:
    document = json.loads(json.dumps(result.document(), allow_nan=False))
    assert document["schema"] == RunResult.SCHEMA and "versions" not in document
    assert list(document["allocators"]) == ["reservation", "exact-fit", "paged"]
    for allocator in document["allocators"].values():
        assert "series" not in allocator and "refused_share" in allocator


@pytest.fixture
def saved(result: RunResult, tmp_path: Path) -> Path:
    return result.save(tmp_path)


def assert_not_loaded(file: Path, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        RunResult.load(file)
    assert str(refused.value).startswith(str(file)) and "\n" not in str(refused.value)


def test_a_truncated_file_is_refused_wherever_it_was_cut(saved: Path) -> None:
    whole = saved.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 3):
        saved.write_bytes(whole[:size])
        assert_not_loaded(saved, "not a saved run")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe\x00", b'{"schema": 3}', b"a,b\n1,2\n", b"[" * 50_000, b'{"schema": NaN}'],
)
def test_a_foreign_file_is_refused(saved: Path, content: bytes) -> None:
    saved.write_bytes(content)
    assert_not_loaded(saved, "not a saved run")


def test_a_wrong_field_or_schema_is_refused(saved: Path) -> None:
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps(document | {"schema": "pagesim.run/2"}))
    assert_not_loaded(saved, "schema pagesim.run/2; accepted: pagesim.run/1")
    for change in ({"pool": 7}, {"allocators": {"paged": {}}}, {"trace": None}):
        saved.write_text(json.dumps(document | change))
        assert_not_loaded(saved, "not a saved run")


def test_a_missing_file_or_folder_without_a_result_is_refused(tmp_path: Path) -> None:
    assert_not_loaded(tmp_path / "nowhere.json", "cannot be read")
    with pytest.raises(UsageError, match=r"has no run\.json; accepted: a folder that"):
        RunResult.load(tmp_path)


def test_a_place_that_cannot_be_written_is_refused(result: RunResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be made a folder"):
        result.save(tmp_path / "file")


def test_a_given_trace_keeps_its_times_or_is_scaled() -> None:
    trace = Trace(np.array([0.0, 4.0, 9.0, 10.0]), np.array([5, 9, 9, 600]), np.array([3, 3, 3, 3]))
    config = replace(SMALL, load=None, trace="mine.csv", num_runs=1)
    result = RunResult.of(config, run(config, trace, check=True))
    assert result.trace.rate_per_s is None and result.trace.sha256 == trace.sha256()
    assert {a.rejected for a in result.allocators.values()} == {1} and result.trace.longest_tokens == 603
    scaled = replace(config, load="0.5")
    result = RunResult.of(scaled, run(scaled, trace))
    assert result.trace.rate_per_s is not None and result.trace.sha256 != trace.sha256()
    assert expected_requests(config, trace) == 4 * 3 and expected_requests(SMALL, None) == 150 * 2 * 3
    with pytest.raises(UsageError, match=r"mine.csv: an empty trace"):
        run(config, trace.take(np.array([], int)))
    assert config.reading == ReadOptions()
