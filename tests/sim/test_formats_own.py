"""Our own format loses nothing in either direction, and is judged by the same rules as any other."""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.formats import read_trace
from pagesim.sim.own_format import ENDINGS, write_trace
from pagesim.sim.reading import ReadOptions
from pagesim.sim.trace import MAX_TOKENS, HashIds, Labels, Trace

TIMES = st.floats(0, 1e12, allow_nan=False)
LENGTHS = st.integers(1, MAX_TOKENS)
LABELS = st.none() | st.text(max_size=5)
IDS = st.integers(-(2**63), 2**63 - 1)


@st.composite
def traces(draw: Any) -> Trace:
    size = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return list(draw(st.lists(values, min_size=size, max_size=size)))

    def labels() -> Labels | None:
        return Labels.of(column(LABELS)) if draw(st.booleans()) else None

    hashed = draw(st.booleans())
    prompt = column(st.integers(1, 60) if hashed else LENGTHS)
    block = draw(st.integers(1, 20))
    counts = [-(-tokens // block) for tokens in prompt] if hashed else []
    ids = [draw(st.lists(IDS, min_size=count, max_size=count)) for count in counts]
    return Trace(
        arrival_s=np.sort(column(TIMES)),
        prompt_tokens=np.array(prompt),
        output_tokens=np.array(column(LENGTHS)),
        hash_ids=HashIds.of(ids) if hashed else None,
        hash_block_tokens=block if hashed else None,
        session=labels(),
        cache_salt=labels(),
        adapter=labels(),
        n=np.array(column(st.integers(1, 2**40))) if draw(st.booleans()) else None,
        priority=np.array(column(IDS)) if draw(st.booleans()) else None,
    )


@settings(max_examples=60, deadline=None)
@given(traces(), st.sampled_from(ENDINGS))
def test_a_trace_comes_back_as_it_went(trace: Trace, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"trace{ending}"
        write_trace(trace, path)
        again, report = read_trace(path)
    assert again.sha256() == trace.sha256()
    assert again.arrival_s.tolist() == trace.arrival_s.tolist()
    assert [getattr(again, f.name) is None for f in fields(Trace)] == [
        getattr(trace, f.name) is None for f in fields(Trace)
    ]
    assert (report.format, report.shifted_by_s, report.requests) == ("pagesim", 0, len(trace))


@pytest.mark.parametrize("ending", ENDINGS)
def test_many_rows_come_back_too(tmp_path: Path, ending: str) -> None:
    rng, size = np.random.default_rng(3), 150_000
    prompt = rng.integers(1, 40, size)
    ids = HashIds(
        rng.integers(0, 99, int((-(-prompt // 16)).sum())), np.concatenate([[0], np.cumsum(-(-prompt // 16))])
    )
    names = Labels.of([None if k % 3 else f"user {k % 1000}" for k in range(size)])
    trace = Trace(np.sort(rng.random(size)), prompt, rng.integers(1, 9, size), ids, 16, session=names)
    write_trace(trace, tmp_path / f"trace{ending}")
    assert read_trace(tmp_path / f"trace{ending}")[0].sha256() == trace.sha256()


def test_equal_traces_are_equal_files(tmp_path: Path) -> None:
    trace = Trace(np.array([0.1]), np.array([2]), np.array([3]))
    for ending in ENDINGS:
        for name in ("a", "b"):
            write_trace(trace, tmp_path / f"{name}{ending}")
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == (tmp_path / "a.jsonl").read_bytes()


def test_only_three_endings_are_written(tmp_path: Path) -> None:
    trace = Trace(np.array([0.1]), np.array([2]), np.array([3]))
    with pytest.raises(UsageError, match=r"accepted: one ending in \.jsonl, \.jsonl\.gz, \.parquet"):
        write_trace(trace, tmp_path / "trace.csv")
    assert list(tmp_path.iterdir()) == []


def test_rows_written_by_hand_need_no_header(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"arrival_s": 2, "prompt_tokens": 9, "output_tokens": 1, "mood": 1}\n' * 2)
    trace, report = read_trace(path)
    assert trace.arrival_s.tolist() == [2, 2]
    assert report.left_out == ("mood",)
    path.write_text('{"arrival_s": 2, "prompt_tokens": 9, "output_tokens": 1, "hash_ids": [4, 5, 6]}\n')
    with pytest.raises(UsageError, match="does not say of how many tokens: say --hash-block-tokens"):
        read_trace(path)
    assert read_trace(path, ReadOptions(hash_block_tokens=4))[0].hash_block_tokens == 4


HEADER = '{"schema":"pagesim.trace/1","columns":["arrival_s","prompt_tokens","output_tokens","n"]}\n'
ROW = '{"arrival_s":1,"prompt_tokens":2,"output_tokens":3,"n":1}\n'
BAD_LINES = [
    (HEADER + ROW + ROW.replace('"n":1', '"n":0'), "line 3: n is 0; accepted: a whole number, 1 or more"),
    (HEADER + ROW.replace(',"n":1', ""), "line 2: has no n; accepted: a whole number, 1 or more"),
    (HEADER.replace("trace/1", "trace/9") + ROW, "schema pagesim.trace/9; accepted: pagesim.trace/1"),
    (HEADER.replace('"n"', '"m"') + ROW, "the header names column m; accepted: arrival_s"),
    (HEADER.replace("columns", "column") + ROW, "the header is broken"),
    (HEADER.replace('"n"', '"priority"') + ROW.replace('"n":1', '"priority":"high"'), "line 2: priority is"),
    (HEADER, "has no rows"),
]


@pytest.mark.parametrize(("text", "message"), BAD_LINES)
def test_bad_lines_of_ours(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trace").write_text(text)
    with pytest.raises(TraceError) as caught:
        read_trace(tmp_path / "trace")
    assert message in str(caught.value)


def test_a_file_that_says_its_hash_size_is_believed(tmp_path: Path) -> None:
    trace = Trace(np.array([0.1]), np.array([2]), np.array([3]), HashIds.of([[1]]), 4)
    write_trace(trace, tmp_path / "trace.parquet")
    with pytest.raises(UsageError, match="says itself that its ids stand for 4 tokens"):
        read_trace(tmp_path / "trace.parquet", ReadOptions(hash_block_tokens=2))


GOOD = {"arrival_s": [0.5, 1.0], "prompt_tokens": [3, 4], "output_tokens": [1, 2]}
BAD_COLUMNS = [
    ({"arrival_s": [0.5, None]}, ", row 2: arrival_s is null; accepted: a finite time"),
    ({"prompt_tokens": [3, -4]}, ", row 2: prompt_tokens is -4; accepted: a whole number"),
    ({"prompt_tokens": [3, 4.5]}, ", row 2: prompt_tokens is 4.5; accepted"),
    ({"prompt_tokens": ["a", "b"]}, ": column prompt_tokens is string; accepted: numbers"),
    ({"output_tokens": [1, 2**41]}, ", row 2: output_tokens is 2199023255552; accepted"),
    ({"n": [1, None]}, ", row 2: n is null; accepted: a whole number, 1 or more"),
    ({"priority": [1, None]}, ", row 2: priority is null; accepted: a whole number"),
    ({"session": [1, 2]}, ": column session is int64; accepted: strings"),
    ({"output_tokens": None}, ": has no column output_tokens; accepted: arrival_s, prompt_tokens, output_tokens"),
]


@pytest.mark.parametrize(("change", "message"), BAD_COLUMNS)
def test_bad_parquet_columns(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    columns = {name: values for name, values in {**GOOD, **change}.items() if values is not None}
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_parquet_of_other_number_types_and_nothing_more(tmp_path: Path) -> None:
    columns = {"arrival_s": pa.array([1, 2], pa.int32()), "prompt_tokens": pa.array([3, 4], pa.uint8())}
    table = pa.table({**columns, "output_tokens": pa.array([5.0, 6.0], pa.float32()), "extra": ["a", "b"]})
    pq.write_table(table, tmp_path / "trace")
    trace, report = read_trace(tmp_path / "trace", ReadOptions(start="zero"))
    assert (trace.arrival_s.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist()) == (
        [0, 1],
        [3, 4],
        [5, 6],
    )
    assert (report.left_out, report.shifted_by_s) == (("extra",), 1)


def test_a_parquet_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.table(GOOD), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match="is not a whole Parquet file"):
        read_trace(path)
