"""Figures of a trace: by hand on small ones, and the published ones on real files where those are at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagesim.sim.formats import read_trace
from pagesim.sim.hash_sharing import found_blocks, hash_sharing
from pagesim.sim.reading import ReadOptions
from pagesim.sim.trace import HashIds, Labels, Trace
from pagesim.sim.trace_stats import LengthStats, trace_stats

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
AZURE_CODE = SHARED / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv"
AZURE_CONV = SHARED / "azure-llm-2023" / "AzureLLMInferenceTrace_conv.csv"
MOONCAKE = SHARED / "mooncake-fast25" / "conversation_trace.jsonl"

PUBLISHED = [
    (AZURE_CODE, 8_819, "3,435.948", "2047.8/1469/7303/7437", "27.9/13/90/1899"),
    (AZURE_CONV, 19_366, "3,501.722", "1154.7/1020/4083/14050", "211.1/129/451/1000"),
    (MOONCAKE, 12_031, "3,536.999", "12035.1/6909/39550/126195", "342.6/350/698/2000"),
]


def there(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"the public trace {path.name} is not beside the repository, in ../shared/traces")
    return path


def words(stats: LengthStats) -> str:
    return f"{stats.mean:.1f}/{stats.median:.0f}/{stats.p95:.0f}/{stats.max}"


@pytest.mark.parametrize(("path", "rows", "span", "prompt", "output"), PUBLISHED)
def test_published_figures(path: Path, rows: int, span: str, prompt: str, output: str) -> None:
    trace, report = read_trace(there(path))
    stats = trace_stats(trace)
    assert (stats.requests, report.rows_read) == (rows, rows)
    assert f"{stats.span_s:,.3f}" == span
    assert (words(stats.prompt), words(stats.output)) == (prompt, output)


def test_azure_code_has_its_gap_of_217_seconds() -> None:
    assert round(trace_stats(read_trace(there(AZURE_CODE))[0]).longest_gap_s) == 217


def test_mooncake_sharing_duplicate_and_coarse_arrivals() -> None:
    trace, report = read_trace(there(MOONCAKE))
    sharing = hash_sharing(trace)
    assert sharing is not None
    assert f"{sharing.token_share:.1%} {sharing.block_share:.1%}" == "37.4% 36.6%"
    assert sharing.prompt_tokens == int(trace.prompt_tokens.sum())
    assert report.duplicate_rows == 1
    assert report.distinct_arrivals == 1_180
    dropped, _ = read_trace(MOONCAKE, ReadOptions(duplicates="drop"))
    assert len(dropped) == 12_030


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=20))
def test_found_blocks_are_those_with_a_front_seen_before(prompts: list[list[int]]) -> None:
    seen: set[tuple[int, ...]] = set()
    expected = []
    for ids in prompts:
        fronts = [tuple(ids[: k + 1]) for k in range(len(ids))]
        expected.append(sum(front in seen for front in fronts))
        seen.update(fronts)
    assert found_blocks(HashIds.of(prompts)).tolist() == expected


def test_a_hit_is_never_longer_than_the_prompt() -> None:
    ids = HashIds.of([[1, 2], [1, 2], [1, 2]])
    trace = Trace(np.zeros(3), np.array([8, 5, 7]), np.ones(3), ids, 4)
    sharing = hash_sharing(trace)
    assert sharing is not None
    assert (sharing.hit_blocks, sharing.blocks, sharing.hit_tokens, sharing.distinct_ids) == (4, 6, 12, 2)
    assert (sharing.block_share, sharing.token_share) == (4 / 6, 12 / 20)


def test_an_equal_block_behind_another_front_is_not_found() -> None:
    assert found_blocks(HashIds.of([[1, 2, 3], [9, 2, 3], [9, 2, 4]])).tolist() == [0, 0, 2]


def test_small_figures_by_hand() -> None:
    trace = Trace(
        np.array([1.0, 1.0, 5.0]),
        np.array([1, 2, 6]),
        np.array([4, 4, 4]),
        session=Labels.of(["a", None, "a"]),
        n=np.array([1, 2, 3]),
    )
    stats = trace_stats(trace)
    assert (stats.span_s, stats.rate_per_s, stats.longest_gap_s, stats.distinct_arrivals) == (4, 0.5, 4, 2)
    assert stats.prompt == LengthStats(9, 3, 2, 5.6, 6)
    assert (stats.sessions, stats.adapters, stats.samples, stats.sharing) == (1, None, 6, None)
    assert stats.sha256 == trace.sha256()


def test_requests_that_all_come_at_once_have_no_rate() -> None:
    assert trace_stats(Trace(np.zeros(2), np.ones(2), np.ones(2))).rate_per_s is None
