"""Each public format, with its quirks, on rows made up for the test."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.formats import read_lengths, read_trace
from pagesim.sim.reading import ReadOptions, ReadReport
from pagesim.sim.trace import Trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"


def write(folder: Path, text: str | bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(folder: Path, text: str | bytes, **options: Any) -> tuple[Trace, ReadReport]:
    return read_trace(write(folder, text), ReadOptions(**options))


def test_azure_with_mark_carriage_returns_seven_digits_and_no_final_newline(tmp_path: Path) -> None:
    text = f"\ufeff{AZURE}\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319601,3180,8"
    trace, report = read(tmp_path, text)
    assert trace.arrival_s.tolist() == [0, 0.0520001]
    assert trace.prompt_tokens.tolist() == [4808, 3180]
    assert trace.output_tokens.tolist() == [10, 8]
    assert report.format == "azure"
    assert report.sentences() == ["arrivals count from the first, which is 2023-11-16T18:17:03.979960000Z"]


def test_azure_with_a_zone_whole_seconds_and_both_in_one_file(tmp_path: Path) -> None:
    text = f"{AZURE}\n2024-05-12 00:00:10+00:00,1,1\n2024-05-12 00:00:10.25+00:00,1,1\n2024-05-12 00:00:11,1,1\n"
    assert read(tmp_path, text)[0].arrival_s.tolist() == [0, 0.25, 1]


def test_azure_images_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    text = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,3,7,2\n2024-10-15 00:00:00,4,7,2\n"
    trace, report = read(tmp_path, text)
    assert trace.prompt_tokens.tolist() == [7, 7]
    assert report.left_out == ("NumImages",)
    assert report.duplicate_rows == 0  # they differ in their images


def burst(rows: str, third: bool = False) -> str:
    head = "Timestamp,Session ID,Elapsed time," if third else "Timestamp,"
    return f"{head}Model,Request tokens,Response tokens,Total tokens,Log Type\n{rows}"


BURST = burst("5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,10,0,10,API log\n45,GPT-4,10,3,13,API log\n" * 2)


def test_burstgpt_drops_failures_sorts_and_counts_duplicates(tmp_path: Path) -> None:
    trace, report = read(tmp_path, BURST)
    assert trace.arrival_s.tolist() == [0, 0, 40, 40]
    assert trace.output_tokens.tolist() == [18, 18, 3, 3]
    assert (report.zero_output, report.zero_output_rows) == ("drop", 2)
    assert (report.out_of_order_rows, report.duplicate_rows, report.duplicates_dropped) == (1, 2, 0)
    assert report.shifted_by_s == 5
    assert report.left_out == ("Model", "Total tokens", "Log Type")


def test_burstgpt_failures_as_one_token_and_duplicates_dropped(tmp_path: Path) -> None:
    trace, report = read(tmp_path, BURST, zero_output="one", duplicates="drop", start="keep")
    assert trace.arrival_s.tolist() == [5, 45, 45]
    assert trace.output_tokens.tolist() == [18, 1, 3]
    assert (report.rows_read, report.requests, report.duplicates_dropped, report.shifted_by_s) == (6, 3, 3, 0)


def test_burstgpt_rows_of_different_models_are_no_duplicates(tmp_path: Path) -> None:
    _, report = read(tmp_path, burst("5,ChatGPT,4,1,5,API log\n5,GPT-4,4,1,5,API log\n"))
    assert report.duplicate_rows == 0


def test_burstgpt_third_version_has_sessions_where_it_has_them(tmp_path: Path) -> None:
    rows = "19440110.0,b-1,43,GPT-4,906,446,1352,Conversation log\n19440161.0,,2,ChatGPT,36,29,65,API log\n"
    trace, _ = read(tmp_path, burst(rows + "19440162.0,b-1,2,ChatGPT,36,29,65,API log\n", third=True))
    assert trace.arrival_s.tolist() == [0, 51, 52]
    assert trace.session is not None
    assert [trace.session[row] for row in range(3)] == ["b-1", None, "b-1"]


def test_vidur_columns_in_any_order(tmp_path: Path) -> None:
    trace, report = read(tmp_path, "num_decode_tokens,arrived_at,num_prefill_tokens\n10,0.0,4808\n8,0.052,3180\n")
    assert (trace.arrival_s[1], trace.prompt_tokens[1], trace.output_tokens[1]) == (0.052, 3180, 8)
    assert (report.format, report.sentences()) == ("vidur", [])


def mooncake(at: float, prompt: int, ids: list[int] | None, **more: Any) -> dict[str, Any]:
    row = {"timestamp": at, "input_length": prompt, "output_length": 5, **more}
    return row if ids is None else {**row, "hash_ids": ids}


def test_mooncake_milliseconds_and_tail_ids(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, jsonl(mooncake(0, 513, [1, 2]), mooncake(27482, 512, [1])))
    assert trace.arrival_s.tolist() == [0, 27.482]
    assert trace.hash_block_tokens == 512
    assert trace.hash_ids is not None
    assert trace.hash_ids[0].tolist() == [1, 2]


def test_mooncake_duplicates_differ_if_their_hash_ids_do(tmp_path: Path) -> None:
    rows = [mooncake(0, 600, ids) for ids in ([1, 2], [2, 1], [1, 2], [1, 3])]
    assert read(tmp_path, jsonl(*rows))[1].duplicate_rows == 1


def test_mooncake_without_hash_ids_and_with_sessions(tmp_path: Path) -> None:
    rows = [mooncake(0, 600, None), mooncake(1, 600, None, session_id="s"), mooncake(2, 600, None, session_id=7)]
    trace, _ = read(tmp_path, jsonl(*rows))
    assert trace.hash_ids is None
    assert trace.session is not None
    assert [trace.session[row] for row in range(3)] == [None, "s", "7"]


def test_an_id_for_16_tokens_is_named_where_512_do_not_fit(tmp_path: Path) -> None:
    text = jsonl(mooncake(0, 40, [1, 2, 3]))
    with pytest.raises(TraceError, match=r"line 1: hash_ids has 3 ids; accepted: 1, .* \(--hash-block-tokens 16 would"):
        read(tmp_path, text)
    assert read(tmp_path, text, hash_block_tokens=16)[0].hash_block_tokens == 16


def test_jitter_spreads_the_same_way_for_the_same_seed_and_keeps_order(tmp_path: Path) -> None:
    text = jsonl(*[mooncake(3000 * (row // 5), 10 + row, None) for row in range(20)])
    first, report = read(tmp_path, text, jitter_s=3, jitter_seed=4)
    again, other = read(tmp_path, text, jitter_s=3, jitter_seed=4)[0], read(tmp_path, text, jitter_s=3)[0]
    assert first.sha256() == again.sha256() != other.sha256()
    assert len(np.unique(first.arrival_s)) == 20
    assert sorted(first.prompt_tokens) == list(range(10, 30))
    lateness = first.arrival_s - 3 * ((first.prompt_tokens - 10) // 5)
    assert ((lateness >= 0) & (lateness < 3)).all()
    assert report.jitter_s == 3
    assert "arrivals fall on 4 distinct times only; --jitter spreads them" in read(tmp_path, text)[1].sentences()


def bailian(chat: int, parent: int, at: float) -> dict[str, Any]:
    kept = {"chat_id": chat, "parent_chat_id": parent, "timestamp": at, "input_length": 17, "output_length": 3}
    return {**kept, "type": "text", "turn": 1, "hash_ids": [chat, 9]}


def test_bailian_sessions_are_the_root_chats(tmp_path: Path) -> None:
    rows = [bailian(1, -1, 0.5), bailian(2, 1, 1), bailian(3, -1, 2), bailian(4, 2, 3), bailian(5, 99, 4)]
    trace, report = read(tmp_path, jsonl(*rows))
    assert trace.session is not None
    assert [trace.session[row] for row in range(5)] == ["1", "1", "3", "1", "99"]
    assert trace.hash_block_tokens == 16
    assert report.left_out == ("type", "turn")
    assert report.notes == ("1 rows follow a chat that is not in the file: that chat's id stands for the session",)


def test_bailian_parents_in_a_circle(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="chat 1 is its own ancestor"):
        read(tmp_path, jsonl(bailian(1, 2, 0), bailian(2, 1, 1)))


def test_ragpulse_string_times_five_lists_and_a_blank_last_line(tmp_path: Path) -> None:
    ids = {"sys_prompt": [1, 2], "passages_ids": [], "history": [3], "web_search": [], "user_input": [4]}
    rows = [
        {"timestamp": at, "input_length": 9, "output_length": 2, "hash_ids": ids, "session_id": "s"}
        for at in ("82", "93", "90.5")
    ]
    trace, report = read(tmp_path, jsonl(*rows) + "\n")
    assert trace.arrival_s.tolist() == [0, 8.5, 11]
    assert trace.hash_ids is None
    assert (report.format, report.out_of_order_rows, report.blank_lines) == ("ragpulse", 1, 1)
    assert any("hash_ids are left out" in note for note in report.sentences())


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("text", [f"{AZURE}\n2024-05-12 00:00:10,1,1\n", jsonl(mooncake(0, 3, [1]))])
def test_gzip_is_unpacked_whatever_the_name(tmp_path: Path, text: str, compressed: bool) -> None:
    data = gzip.compress(text.encode()) if compressed else text.encode()
    assert len(read(tmp_path, data)[0]) == 1


def test_a_list_of_lengths_is_no_trace_but_gives_lengths(tmp_path: Path) -> None:
    path = write(
        tmp_path, "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n3772,54,3826,69.8\n20,1,2,3\n"
    )
    with pytest.raises(TraceError, match=r"pagesim trace generate --lengths .*trace --rate R"):
        read_trace(path)
    prompt, output = read_lengths(path)
    assert (prompt.tolist(), output.tolist()) == ([3772, 20], [54, 1])


def test_lengths_of_a_trace(tmp_path: Path) -> None:
    prompt, output = read_lengths(write(tmp_path, f"{AZURE}\n2024-05-12 00:00:10,7,2\n"))
    assert (prompt.tolist(), output.tolist()) == ([7], [2])


def test_servegen_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="pagesim trace generate --arrivals servegen:"):
        read(tmp_path, "0,1.33,8.5,Weibull,0.37,0.39\n600,0,0,,0,0\n")


def test_hash_block_tokens_for_a_trace_without_hash_ids(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"hash-block-tokens 16: .*trace \(format azure\) has no hash ids"):
        read(tmp_path, f"{AZURE}\n2024-05-12 00:00:10,1,1\n", hash_block_tokens=16)


def test_limit_stops_before_what_is_bad_behind_it(tmp_path: Path) -> None:
    text = burst("5,a,4,1,5,x\n6,a,4,0,5,x\n7,a,4,1,5,x\n8,a,oops,1,5,x\n")
    trace, report = read(tmp_path, text, limit=2)
    assert trace.arrival_s.tolist() == [0, 2]
    assert (report.limit, report.rows_read, report.zero_output_rows) == (2, 3, 1)


def test_progress_adds_up_to_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "1.5,20,3\n" * 200_000)
    steps: list[int] = []
    trace, _ = read_trace(path, on_progress=steps.append)
    assert len(trace) == 200_000
    assert len(steps) > 1
    assert sum(steps) == path.stat().st_size
