"""The arithmetic of the bench, its page, and the verdict of gpu_check, on rows made up here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pagesim.kernels.bench_cases import MAX_COPIES, Case, Grid, Heads, num_copies, ratios
from pagesim.kernels.bench_page import page
from pagesim.kernels.errors import InputError, UnsupportedError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu_check

PLACE = {"batch": 64, "context_tokens": 2048, "block_size": 16}


def row(addressing: str, tiles: int, time_us: float) -> dict[str, object]:
    rate = {"bytes_per_s": 1e12 / time_us, "of_copy_bandwidth": 9 / time_us}
    return PLACE | {"kernel": "pagesim", "addressing": addressing, "tiles_in_flight": tiles, "time_us": time_us} | rate


ROWS = [row("CONTIGUOUS", 0, 20.0), row("BY_BLOCK", 0, 22.0), row("CONTIGUOUS", 3, 10.0), row("BY_BLOCK", 3, 10.1)]
SDPA = PLACE | {"kernel": "torch SDPA, contiguous", "time_us": 30.0, "bytes_per_s": 1.0}


def test_bytes_moved_by_the_notes_decode() -> None:
    """64 sequences of 2,048 tokens at 512 B a token and layer, queries in and outputs out."""
    case = Case(Heads(), 64, 2048, 16)
    assert case.kv_bytes == 64 * 2048 * 512
    assert case.bytes_moved - case.kv_bytes == 2 * 64 * 14 * 64 * 2


def test_inputs_rotate_over_more_than_the_l2_within_reason() -> None:
    case = Case(Heads(), 64, 2048, 16)
    assert num_copies(case, 60 * 2**20) == 3
    assert num_copies(case, 2**20) == 1
    assert num_copies(Case(Heads(), 1, 128, 16), 60 * 2**20) == MAX_COPIES


def test_a_ratio_is_taken_against_the_twin_with_as_many_tiles_in_flight() -> None:
    found = {(r["addressing"], r["tiles_in_flight"]): r["paged_over_contiguous"] for r in ratios(ROWS)}
    assert found == {("BY_BLOCK", 0): pytest.approx(1.1), ("BY_BLOCK", 3): pytest.approx(1.01)}


def test_a_row_that_failed_has_no_ratio() -> None:
    assert ratios([ROWS[0], PLACE | {"kernel": "pagesim", "addressing": "BY_BLOCK", "failed": "x"}]) == []


@pytest.mark.parametrize(
    ("grid", "words"),
    [(Grid(block_sizes=(24,)), "24; the Triton backend takes multiples of 16"), (Grid(batches=(0,)), "batch is 0")],
)
def test_bad_grids(grid: Grid, words: str) -> None:
    with pytest.raises((InputError, UnsupportedError), match=words):
        grid.check()


@pytest.mark.parametrize("heads", [{"dtype": "fp8"}, {"num_heads": 15}, {"num_kv_heads": 0}])
def test_bad_heads(heads: dict[str, object]) -> None:
    with pytest.raises(InputError, match="accepted"):
        Heads(**heads)


def test_the_page_shows_times_and_escapes_what_it_is_given() -> None:
    report = {"measured": True, "device": {"name": "<script>x"}, "rows": [*ROWS, SDPA], "ratios": ratios(ROWS)}
    text = page(report)
    assert "Batch 64" in text
    assert "Paged over contiguous" in text
    assert "torch SDPA" in text
    assert "<script>x" not in text


def part(rows: list[dict[str, object]]) -> dict[str, object]:
    return {"heads": {}, "rows": rows}


def test_gpu_check_holds_a_card_to_what_was_promised() -> None:
    met = gpu_check.target(part([*ROWS, SDPA]))
    assert met["met"]
    assert met["paged_over_contiguous"] == pytest.approx(1.01)
    assert met["sdpa_over_paged"] == pytest.approx(30 / 10.1)


@pytest.mark.parametrize(
    "rows",
    [
        [row("CONTIGUOUS", 3, 10.0), row("BY_BLOCK", 3, 10.3), SDPA],  # 3% over its twin
        [row("CONTIGUOUS", 3, 12.0), row("BY_BLOCK", 3, 12.0), SDPA],  # 75% of the copy bandwidth
        [row("CONTIGUOUS", 3, 10.0), row("BY_BLOCK", 3, 10.0), SDPA | {"time_us": 9.0}],  # slower than SDPA
        [SDPA],
        [],
    ],
)
def test_gpu_check_says_what_is_missed(rows: list[dict[str, object]]) -> None:
    assert gpu_check.target(part(rows))["met"] is False


def test_a_wrong_kernel_is_exit_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = {"correctness": [{"check": "decode", "right": False}, {"check": "prefill", "right": True}], "targets": []}
    assert gpu_check.verdict(report, tmp_path) == 1
    assert "WRONG {'check': 'decode'" in capsys.readouterr().out
    report["correctness"][0]["right"] = True
    assert gpu_check.verdict(report, tmp_path) == 0
