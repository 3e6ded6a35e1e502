"""`pagesim capacity` as a user runs it: the note's figures, the JSON's keys, windows, and one line for each mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STABLE_KEYS = {
    "schema", "bytes_per_token", "bytes_per_block", "num_blocks", "pool_tokens", "reservations", "sequences", "tail",
    "max_concurrency", "starts", "largest_max_model_len",
}  # fmt: skip
NOTE_RUN = ("--model", "qwen2.5-0.5b", "--num-blocks", "58064", "--card", "t4")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pagesim", "capacity", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def answer(*arguments: str) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_json_of_the_notes_run() -> None:
    report = answer(*NOTE_RUN, "--at", "1000")
    assert report["schema"] == "pagesim.capacity/1"
    assert set(report) >= STABLE_KEYS
    assert (report["bytes_per_token"], report["bytes_per_block"]) == (12_288, 196_608)
    assert (report["num_blocks"], report["usable_blocks"], report["pool_tokens"]) == (58_064, 58_063, 929_024)
    assert report["reservations"] == 453
    lengths = {"2048": 453, "1000": 921, "512": 1814, "256": 3629, "128": 7258}
    assert report["sequences"] == lengths
    assert report["bare_card"]["reservations"] == 573
    assert round(report["bare_card"]["gain"], 1) == 6.3
    assert round(report["gain_over_reservations"], 1) == 8.0
    assert set(report["tail"]) == {"16", "32", "64"}
    assert set(report["tail"]["16"]) >= {"tokens_mean", "share", "sequences"}
    assert report["tail"]["16"]["bytes_most"] == 180 * 1024
    assert (report["block_table"]["entries"], report["block_table"]["bytes"]) == (128, 512)
    assert report["starts"] is True
    assert (report["largest_max_model_len"], report["largest_servable_len"]) == (929_024, 929_008)


@pytest.mark.parametrize(("utilization", "tokens"), [("0.7", 738_992), ("0.85", 929_856), ("0.95", 1_057_104)])
def test_json_of_the_card(utilization: str, tokens: int) -> None:
    report = answer("--model", "qwen2.5-0.5b", "--device", "t4", "--utilization", utilization)
    assert report["pool_tokens"] == tokens
    (term,) = report["budget"]["terms"]
    assert (term["name"], term["standing"]) == ("not cache", "measured")
    assert any("2.02 GB" in note for note in report["notes"])


def test_tables_name_both_limits_and_the_units() -> None:
    done = run(*NOTE_RUN)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("12 KiB", "192 KiB", "453", "573", "3,628 without the null block", "929,024 tokens", "929,008 tokens",
                  "180 KiB", "453.62x", "512 B", "largest max_model_len", "largest that is served"):  # fmt: skip
        assert words in done.stdout


def test_an_estimate_says_so_and_shows_its_formula() -> None:
    done = run("--model", "qwen3-14b", "--device", "h100", "--utilization", "0.95", "--max-model-len", "8192")
    assert done.returncode == 0
    assert "estimated" in done.stdout
    assert "an estimate" in done.stdout
    assert "14,768,307,200 parameters x 2 B" in " ".join(done.stdout.replace("│", " ").split())


def test_a_length_that_cannot_start_names_the_one_that_can() -> None:
    report = answer(
        "--bytes-per-token", "131072", "--kv-bytes", "0.71GiB", "--block-size", "256", "--max-model-len", "131072"
    )
    assert report["starts"] is False
    assert report["needed_bytes"] == 16 * 2**30
    assert (report["largest_max_model_len"], report["largest_servable_len"]) == (5632, 5376)
    tables = run("--bytes-per-token", "131072", "--kv-bytes", "0.71GiB", "--max-model-len", "131072").stdout
    assert "no: one such sequence takes 16 GiB" in tables


def test_start_up_accepts_a_length_that_is_never_served() -> None:
    report = answer("--bytes-per-token", "1", "--num-blocks", "8", "--block-size", "128", "--max-model-len", "1024")
    assert (report["starts"], report["servable"], report["largest_servable_len"]) == (True, False, 896)
    assert any("would wait for ever" in note for note in report["notes"])


def test_windows_count_unless_the_hybrid_manager_is_off() -> None:
    asked = ("--model", "gemma-3-27b", "--kv-bytes", "20GiB", "--max-model-len", "32768")
    on, off = answer(*asked), answer(*asked, "--no-hybrid")
    assert on["num_blocks"] == off["num_blocks"]
    assert on["max_concurrency"] > 5 * off["max_concurrency"]
    assert off["largest_max_model_len"] == off["pool_tokens"]


def test_layers_that_keep_a_state_are_said_not_to_be_counted() -> None:
    report = answer("--model", "qwen3-next-80b-a3b", "--kv-bytes", "20GiB", "--kv-dtype", "fp8")
    assert report["bytes_per_token"] == 12_288
    assert any("state of fixed size" in note for note in report["notes"])
    assert any("scales" in note for note in report["notes"])


def test_ranks_share_heads_and_layers() -> None:
    asked = ("--model", "llama-3.1-70b", "--kv-bytes", "20GiB")
    assert answer(*asked, "--tp", "4", "--pp", "2")["bytes_per_token"] == 327_680 // 8


def test_a_config_json_of_ones_own(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 1, "torch_dtype": "float16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert answer("--model", str(tmp_path), "--num-blocks", "9")["bytes_per_token"] == 2 * 2 * 16 * 2


def test_distributions_of_ones_own() -> None:
    report = answer("--bytes-per-token", "10", "--num-blocks", "100", "--block-size", "8", "--lengths", "fixed:20")
    assert set(report["tail"]) == {"8", "16", "32", "64"}
    assert report["tail"]["8"]["tokens_mean"] == 4


def test_the_same_question_gives_the_same_bytes() -> None:
    assert run(*NOTE_RUN, "--json").stdout == run(*NOTE_RUN, "--json").stdout


MISTAKES = [
    ((), "the pool is decided by nothing"),
    (("--model", "qwen2.5-0.5b", "--device", "t4", "--num-blocks", "9"), "decided by --device and --num-blocks"),
    (("--model", "qwen2.5-9b", "--num-blocks", "9"), "near matches"),
    (("--model", "qwen2.5-0.5b", "--device", "t40"), "near matches"),
    (("--model", "no/such/config.json", "--num-blocks", "9"), "no/such/config.json: cannot be read"),
    (("--bytes-per-token", "9", "--num-blocks", "9", "--block-size", "0"), "--block-size 0"),
    (("--bytes-per-token", "9", "--kv-bytes", "-2GiB"), "--kv-bytes '-2GiB' is no size"),
    (("--bytes-per-token", "9", "--kv-bytes", "100"), "100 B hold 0 blocks"),
    (("--model", "qwen2.5-0.5b", "--device", "t4", "--utilization", "1.5"), "--utilization 1.5; accepted"),
    (("--model", "qwen2.5-0.5b", "--num-blocks", "9", "--tp", "3"), "tp 3 does not divide"),
    (("--model", "qwen2.5-0.5b", "--num-blocks", "9", "--max-model-len", "0"), "--max-model-len 0"),
    (("--model", "qwen2.5-0.5b", "--num-blocks", "9", "--at", "-5"), "a sequence of -5 tokens"),
    (("--model", "qwen2.5-0.5b", "--num-blocks", "9", "--lengths", "guess"), "lengths 'guess'; accepted"),
    (("--model", "qwen2.5-0.5b", "--num-blocks", "9", "--card", "toaster"), "unknown device 'toaster'"),
    (("--model", "qwen2.5-0.5b", "--num-blocks", "9", "--engine", "guess"), "--engine"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_status_2(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
