"""Files that cannot be used: one line that names file, line, field, value, and what would be accepted."""

from __future__ import annotations

import gzip
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.formats import read_trace
from pagesim.sim.readers.trace_file import BROKEN, CleanText
from pagesim.sim.reading import ReadOptions

VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
GOOD = VIDUR + "0.5,10,2\n"
ROW = '{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1]}\n'


def refusal(folder: Path, data: str | bytes, **options: Any) -> str:
    path = folder / "trace"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(TraceError) as caught:
        read_trace(path, ReadOptions(**options))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < 1000
    return message.removeprefix(str(path))


CSV_CASES = [
    ("-1,10,2", "arrived_at is -1; accepted: a finite time, 0 or later"),
    ("nan,10,2", "arrived_at is nan; accepted: a finite time, 0 or later"),
    ("inf,10,2", "arrived_at is inf; accepted: a finite time, 0 or later"),
    ("soon,10,2", "arrived_at is 'soon'; accepted: a finite time, 0 or later"),
    (",10,2", "arrived_at is ''; accepted: a finite time, 0 or later"),
    ("1,0,2", "num_prefill_tokens is 0; accepted: a whole number of tokens from 1 to 1099511627776"),
    ("1,-3,2", "num_prefill_tokens is -3; accepted"),
    ("1,2.5,2", "num_prefill_tokens is 2.5; accepted"),
    ("1,0x10,2", "num_prefill_tokens is '0x10'; accepted"),
    ("1,10,0", "num_decode_tokens is 0; accepted: a whole number of tokens from 1 to 1099511627776 (--zero-output"),
    ("1,10,1099511627777", "num_decode_tokens is 1099511627777; accepted"),
    ("1,10,1e300", "num_decode_tokens is 1e+300; accepted"),
    ("1,10,nan", "num_decode_tokens is nan; accepted"),
    ("1,10", "has 2 fields; accepted: 3, as in the header"),
    ("1,10,2,4", "has 4 fields; accepted: 3, as in the header"),
]


@pytest.mark.parametrize(("row", "message"), CSV_CASES)
def test_a_bad_csv_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    assert refusal(tmp_path, f"{GOOD}{row}\n1,10,2\n").startswith(f", line 3: {message}")


JSON_CASES = [
    ('{"timestamp": -1, "input_length": 3, "output_length": 1, "hash_ids": [1]}', "timestamp is -1; accepted"),
    ('{"timestamp": NaN, "input_length": 3, "output_length": 1}', "is not JSON (JSON is malformed"),
    ('{"timestamp": 1e999, "input_length": 3, "output_length": 1}', "is not JSON (Number out of range"),
    ('{"timestamp": "1", "input_length": 3, "output_length": 1}', 'timestamp is "1"; accepted: a finite time'),
    ('{"timestamp": 1, "input_length": true, "output_length": 1}', "input_length is true; accepted: a whole number"),
    ('{"timestamp": 1, "input_length": 3.5, "output_length": 1, "hash_ids": [1]}', "input_length is 3.5; accepted"),
    ('{"timestamp": 1, "input_length": 3, "output_length": 0, "hash_ids": [1]}', "output_length is 0; accepted"),
    ('{"timestamp": 1, "output_length": 1}', "has no input_length; accepted: timestamp, input_length, output_length"),
    ('{"timestamp": 1, "input_length": 3, "output_length": 1}', "has no hash_ids; accepted: a list of whole numbers"),
    ('{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": [1, 2]}', "hash_ids has 2 ids; accepted: 1"),
    (
        '{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": ["a"]}',
        'hash_ids is ["a"]; accepted: a list',
    ),
    ('{"timestamp": 1, "input_length": 3, "output_length": 1, "hash_ids": [1e30]}', "hash_ids is [1e30]; accepted"),
    ('{"timestamp": 1, "input_length": 3, "outp', "is not JSON (Input data was truncated)"),
    ("[1, 2]", "is [1, 2]; accepted: a JSON object with timestamp"),
    ("\xff\xfe", "is not JSON"),
]


@pytest.mark.parametrize(("row", "message"), JSON_CASES)
def test_a_bad_json_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    text = f"{ROW}{ROW}".encode() + row.encode("latin-1") + f"\n{ROW}".encode()
    assert refusal(tmp_path, text).startswith(f", line 3: {message}")


def test_a_bad_date_is_named(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-12 00:00:10,1,1\n2024-13-12 00:00:10,1,1\n"
    assert refusal(tmp_path, text).startswith(", line 3: TIMESTAMP is '2024-13-12 00:00:10'; accepted: a date such as")


def test_the_earliest_of_several_bad_rows_is_named_and_blank_lines_count(tmp_path: Path) -> None:
    text = GOOD + "\n" + "1,x,2\n" + "1,2\n"
    assert refusal(tmp_path, text).startswith(", line 4: num_prefill_tokens is 'x'")
    assert refusal(tmp_path, GOOD + "\n1,2\n1,x,2\n").startswith(", line 4: has 2 fields")


def test_line_numbers_hold_past_the_first_block(tmp_path: Path) -> None:
    many = "0.5,10,2\n" * 300_000
    assert refusal(tmp_path, VIDUR + many + "1,2\n" + many + "1,x,2\n").startswith(", line 300002: has 2 fields")
    path = tmp_path / "trace"
    path.write_text(VIDUR + many + "1,2\n" + many + "1,x,2\n" + "0.5,10,2\n")
    trace, report = read_trace(path, ReadOptions(on_bad_row="skip"))
    assert (len(trace), report.rows_read, report.bad_rows_skipped) == (600_001, 600_003, 2)
    message = refusal(tmp_path, VIDUR + many + "\n" + many + "1,x,2\n")
    assert message.startswith(", line 600003: num_prefill_tokens is 'x'")


def test_bytes_that_are_no_text_are_a_bad_row_like_any_other(tmp_path: Path) -> None:
    head = b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    good, number = b"1,a,1,m,5,6,11,l\n", b"1,a,1,m,\xff5,6,11,l\n"
    name, short = b"1,\xff\xfe,1,m,5,6,11,l\n", b"1,\xe2\x82,1\n"
    assert refusal(tmp_path, head + good + number).startswith(", line 3: Request tokens is '\\x1a5'; accepted: a whole")
    assert refusal(tmp_path, head + good + name) == ", line 3: Session ID is not UTF-8 text; accepted: a name in UTF-8"
    assert refusal(tmp_path, head + good + short).startswith(", line 3: has 3 fields")
    path = tmp_path / "trace"
    path.write_bytes(head + (good + number + name + short) * 30_000 + "1,Zoë,1,m,5,6,11,l\n".encode())
    trace, report = read_trace(path, ReadOptions(on_bad_row="skip"))
    assert (report.rows_read, report.bad_rows_skipped) == (120_001, 90_000)
    assert trace.session is not None
    assert trace.session.names == ("a", "Zoë")


@pytest.mark.parametrize("size", [7, 8, 9, 10])
def test_characters_cut_by_the_end_of_a_block_stay_whole(size: int) -> None:
    text = "a€😀b" * 20 + "é"
    data = text.encode() + b"\xe2\x82"
    stream = CleanText(io.BytesIO(data))
    blocks = list(iter(lambda: stream.read(size), b""))
    assert b"".join(blocks).decode() == text + BROKEN * 2
    assert max(map(len, blocks)) <= size


SEEDS = [
    GOOD.encode() * 2,
    ROW.encode() * 2,
    b"\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n",
    b'{"schema":"pagesim.trace/1","columns":["arrival_s","prompt_tokens","output_tokens","session"]}\n'
    b'{"arrival_s":1,"prompt_tokens":2,"output_tokens":3,"session":"a"}\n',
    gzip.compress(ROW.encode() * 2),
]
BITS = [
    b",",
    b"\n",
    b'"',
    b"{",
    b"]",
    b"-",
    b"1e999",
    b"null",
    b"nan",
    b"\0",
    b"\xff",
    b"9" * 30,
    b" ",
    b'"\\ud800"',
    b"\x1b",
]


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(SEEDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), st.sampled_from(BITS)), max_size=4)
)
def test_any_damage_is_read_or_refused_in_one_line(seed: bytes, damage: list[tuple[float, int, bytes]]) -> None:
    for where, lost, put in damage:
        place = round(where * len(seed))
        seed = seed[:place] + put + seed[place + lost :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(seed)
        for options in (ReadOptions(), ReadOptions(on_bad_row="skip", duplicates="drop")):
            message = "read"
            try:
                read_trace(path, options)
            except (TraceError, UsageError) as error:
                message = str(error)
            assert message.isprintable(), "one line, and nothing that moves a terminal"


@pytest.mark.parametrize("bad", ["-1,10,2", "1,10", "1,x,2", "1,10,0"])
def test_skipping_counts_and_names_the_first(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "trace"
    path.write_text(f"{GOOD}{bad}\n{bad}\n1,10,2\n")
    trace, report = read_trace(path, ReadOptions(on_bad_row="skip"))
    assert trace.arrival_s.tolist() == [0, 0.5]
    assert (report.rows_read, report.bad_rows_skipped) == (4, 2)
    assert report.first_bad_row is not None
    assert report.first_bad_row.startswith("line 3: ")
    assert report.sentences()[0].startswith("2 bad rows skipped, the first at line 3: ")


def test_skipping_bad_json_rows(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(ROW + '{"broken\n\n' + ROW + ROW.replace("3", "-3"))
    trace, report = read_trace(path, ReadOptions(on_bad_row="skip"))
    assert len(trace) == 2
    assert (report.rows_read, report.bad_rows_skipped, report.blank_lines) == (4, 2, 1)


def test_nothing_left_to_use(tmp_path: Path) -> None:
    text = VIDUR + "1,10,0\n-1,10,1\n"
    message = refusal(tmp_path, text, on_bad_row="skip", zero_output="drop")
    assert message.startswith(
        ": none of its 2 rows can be used (bad: 1, without an output token: 1); accepted: a trace"
    )


@pytest.mark.parametrize("text", ["", "\n\n", VIDUR, VIDUR + "\n\n", "\ufeff"])
def test_no_rows(tmp_path: Path, text: str) -> None:
    assert "has no rows; accepted: a trace of at least one request" in refusal(tmp_path, text)


def test_a_column_is_missing(tmp_path: Path) -> None:
    assert refusal(tmp_path, "TIMESTAMP,ContextTokens\n1,2\n").startswith(", line 1: has no column GeneratedTokens")
    assert refusal(tmp_path, '{"timestamp": 1, "output_length": 2}\n').startswith(", line 1: has no input_length")
    assert "column arrived_at is there twice" in refusal(tmp_path, "arrived_at," + GOOD)


UNKNOWN = ["when,how,much\n1,2,3\n", '{"a": 1}\n', "hello\n", ",".join(f"c{k}" for k in range(10**6))]


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_header_lists_what_is_known(tmp_path: Path, text: str) -> None:
    message = refusal(tmp_path, text)
    for known in ("azure (TIMESTAMP", "burstgpt (", "vidur (", "mooncake (", "bailian (", "ragpulse (", "pagesim ("):
        assert known in message


def test_a_known_header_with_too_many_columns(tmp_path: Path) -> None:
    header = VIDUR.strip() + "".join(f",c{k}" for k in range(10**6))
    assert refusal(tmp_path, header + "\n1,2,3\n") == ": has 1,000,003 columns; accepted: up to 1,000"


def test_other_things_that_are_no_text(tmp_path: Path) -> None:
    assert refusal(tmp_path, GOOD.encode("utf-16")) == ": is UTF-16 text; accepted: UTF-8"
    assert refusal(tmp_path, bytes(range(256)) * 50).startswith(": is not text; accepted: a CSV, JSON Lines or Parquet")
    assert refusal(tmp_path, b"\x89PNG\r\n\x1a\n" + b"\0" * 100).startswith(": is not text")
    assert refusal(tmp_path, b"PAR1" + b"junk" * 20).startswith(": is not a whole Parquet file")
    assert refusal(tmp_path, b"x" * (17 * 2**20)).startswith(": the first line is longer than 16,777,216 bytes")
    assert refusal(tmp_path, "[\n" + ROW).startswith(", line 1: is not JSON")
    assert refusal(tmp_path, "{\n" + ROW).startswith(", line 1: is not JSON")
    assert refusal(tmp_path, f"[{ROW.strip()}]\n").startswith(", line 1: is not a JSON object")


def test_an_endless_line_further_down(tmp_path: Path) -> None:
    assert refusal(tmp_path, GOOD + "1" * 3 * 2**20).startswith(": a line after line ")
    assert refusal(tmp_path, ROW + "1" * 40 * 2**20).startswith(", line 2: is longer than 16,777,216 bytes")


@pytest.mark.parametrize("text", [VIDUR + "0.5,10,2\n" * 50_000, ROW * 50_000])
def test_a_gzip_that_ends_early_or_is_broken(tmp_path: Path, text: str) -> None:
    packed = gzip.compress(text.encode())
    assert refusal(tmp_path, packed[:-30]) == ": the gzip data end too early; accepted: a whole file"
    assert refusal(tmp_path, b"\x1f\x8b" + b"junk" * 30).startswith(": the gzip data are broken")


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a folder; accepted: a file"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "nothing")
    with pytest.raises(TraceError, match="not a regular file"):
        read_trace(Path("/dev/null"))


@pytest.mark.parametrize("text", [GOOD + "0.25,10,2\n", ROW.replace(": 0,", ": 5,") + ROW])
def test_rows_out_of_order_may_be_refused(tmp_path: Path, text: str) -> None:
    assert "is earlier than in the row before; accepted: rows in order" in refusal(tmp_path, text, unsorted="stop")


@pytest.mark.parametrize(
    "options",
    [
        {"on_bad_row": "ignore"},
        {"zero_output": "two"},
        {"unsorted": "x"},
        {"duplicates": "x"},
        {"start": "x"},
        {"jitter_s": -1},
        {"jitter_s": float("nan")},
        {"hash_block_tokens": 0},
        {"limit": 0},
        {"jitter_seed": -1},
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="accepted: "):
        ReadOptions(**options)
