"""`pagesim kernel explain` and `pagesim bench attention`, as a person calls them, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Runs the command line in a process where some modules cannot be imported.
WITHOUT = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
from pagesim.cli import main
sys.argv = ["pagesim", *{arguments}]
main()
"""


def pagesim(*arguments: str, blocked: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(blocked=set(blocked) or "set()", arguments=list(arguments))
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {"CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def test_explain_needs_neither_torch_nor_triton() -> None:
    done = pagesim("kernel", "explain", "--json", blocked=("torch", "triton", "numpy"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "pagesim.kernel.explain/1"
    assert report["step"]["table_reads_by_position"] == 96_000
    assert report["tiles"][0]["block_number_bytes"] == 64
    assert report["tiles"][0]["kv_bytes"] == 4096
    assert report["tiles"][0]["multiply_adds"] == 14_336


def test_explain_for_people() -> None:
    done = pagesim("kernel", "explain", "--seq-len", "2000")
    assert done.returncode == 0
    for words in ("64 B", "4,096 B", "14,336", "96,000", "table[i // 16] * 8192 B", "... 117 more"):
        assert words in done.stdout


def test_the_same_seed_draws_the_same_table() -> None:
    first, again, other = (pagesim("kernel", "explain", "--seed", seed).stdout for seed in ("1", "1", "2"))
    assert first == again != other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--block-size", "8"), "block_size is 8; the Triton backend takes multiples of 16"),
        (("--seq-len", "0"), "seq_len_tokens is 0"),
        (("--tile", "20"), "tile_tokens is 20"),
    ],
)
def test_explain_refuses(arguments: tuple[str, ...], words: str) -> None:
    refused(pagesim("kernel", "explain", *arguments), words)


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_bench_without_a_library_names_the_extra(missing: str) -> None:
    refused(
        pagesim("bench", "attention", blocked=(missing,)),
        f"{missing} is not installed; accepted: pip install 'pagesim[engine]'",
    )


def test_bench_asked_for_a_card_that_is_not_there_stops() -> None:
    pytest.importorskip("triton", reason="needs pagesim[engine]")
    refused(pagesim("bench", "attention", "--on", "cuda"), "no CUDA device was found")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--block-size", "24"), "block size is 24; the Triton backend takes multiples of 16"),
        (("--head-dim", "60"), "head_dim is 60"),
        (("--dtype", "fp8"), "dtype is fp8"),
        (("--heads", "15"), "15 heads over 2 KV heads"),
        (("--html", "/no/such/folder/x.html"), "there is no folder /no/such/folder"),
    ],
)
def test_bench_refuses(arguments: tuple[str, ...], words: str) -> None:
    pytest.importorskip("triton", reason="needs pagesim[engine]")
    refused(pagesim("bench", "attention", *arguments), words)


def test_bench_without_a_card_counts_and_says_that_it_timed_nothing(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="needs pagesim[engine]")
    done = pagesim("bench", "attention", "--json", "--html", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["schema"] == "pagesim.bench.attention/1"
    assert report["measured"] is False
    assert report["note"].startswith("No time was measured.")
    assert {row["compute_capability"] for row in report["rows"]} == {"7.5", "8.0", "9.0"}
    assert not any("time" in key for row in report["rows"] for key in row)
    text = (tmp_path / "page.html").read_text()
    assert "No time was measured." in text
    assert "Instructions in the loop" in text


def test_bench_on_the_cpu_times_the_cpu_backend() -> None:
    pytest.importorskip("torch", reason="needs pagesim[engine]")
    done = pagesim(
        "bench", "attention", "--on", "cpu", "--batch", "2", "--context", "40", "--block-size", "16", "--json",
        blocked=("triton",),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["kernel"] for row in report["rows"]] == [
        "pagesim cpu, equal lengths",
        "pagesim cpu, ragged lengths",
        "torch SDPA, contiguous",
    ]
    assert all(row["time_us"] > 0 for row in report["rows"])


def test_the_package_and_the_cpu_backend_load_without_triton() -> None:
    modules = ("cpu_decode", "cpu_prefill", "cpu_cache", "sequences", "chunks", "slots", "settings", "account")
    lines = "; ".join(f"import pagesim.kernels.{name}" for name in modules)
    code = f"import pagesim.kernels, sys; assert not {{'torch', 'triton'}} & set(sys.modules); {lines}"
    blocked = WITHOUT.format(blocked={"triton"}, arguments=[]).partition("from pagesim.cli")[0]
    done = subprocess.run([sys.executable, "-c", blocked + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
