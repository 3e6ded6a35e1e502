"""The address line is the one line this package is about: each way of getting it wrong must be seen by the checks."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from kernel_cases import TOLERANCE, exact, make_case, worst
from kernel_checks import check_decode, check_prefill, decode, launch_of
from test_decode import test_blocks_whose_offsets_pass_32_bits as check_far_blocks

from pagesim.kernels import decode_grouped_kernel, decode_one_head_kernel, prefill_kernel, tile
from pagesim.kernels.addressing import Addressing
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.settings import Body

PLAIN = AttentionOptions(scale=0.125)
KERNELS = (decode_grouped_kernel, decode_one_head_kernel, prefill_kernel)
MUTANTS = {
    "next block, by position": ("positions // BLOCK_SIZE, mask", "positions // BLOCK_SIZE + 1, mask"),
    "next block, by block": ("start // BLOCK_SIZE)", "start // BLOCK_SIZE + 1)"),
    "next slot, by position": ("(positions % BLOCK_SIZE)", "((positions + 1) % BLOCK_SIZE)"),
    "next slot, by block": ("+ start % BLOCK_SIZE *", "+ (start + 1) % BLOCK_SIZE *"),
    "next slot, contiguous": ("+ start * slot_stride", "+ (start + 1) * slot_stride"),
    "stale entry, by position": ("positions // BLOCK_SIZE, mask", "tl.maximum(positions - 1, 0) // BLOCK_SIZE, mask"),
    "stale entry, by block": ("start // BLOCK_SIZE)", "tl.maximum(start - 1, 0) // BLOCK_SIZE)"),
    "first row, contiguous": ("tl.load(table_ptr).to(tl.int64)", "tl.zeros([], tl.int64)"),
    "start of the row, contiguous": ("tl.load(table_ptr + 1).to(tl.int64)", "tl.zeros([], tl.int64)"),
}


def plant(monkeypatch: pytest.MonkeyPatch, folder: Path, right: str, wrong: str) -> None:
    """Put a copy of the address line with `right` replaced by `wrong` into every kernel."""
    source = Path(tile.__file__).read_text()
    assert source.count(right) == 1, f"{right!r} is no longer part of the address line"
    path = folder / "mutant_tile.py"
    path.write_text(source.replace(right, wrong))
    spec = importlib.util.spec_from_file_location("mutant_tile", path)
    assert spec is not None
    assert spec.loader is not None
    mutant = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutant)
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "slot_offsets", mutant.slot_offsets)
        monkeypatch.setattr(kernel, "contiguous_base", mutant.contiguous_base)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN is what a mutant reads
@pytest.mark.parametrize("name", MUTANTS)
def test_the_checks_catch(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    decoded = make_case([20, 50])
    filled = make_case([20, 50], counts=[4, 30])
    check_decode(decoded, PLAIN, Body.GROUPED)
    check_prefill(filled, PLAIN)
    plant(monkeypatch, tmp_path, *MUTANTS[name])
    for body in Body:
        with pytest.raises(AssertionError):
            check_decode(decoded, PLAIN, body)
    with pytest.raises(AssertionError):
        check_prefill(filled, PLAIN)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the overflow is the mutant
@pytest.mark.parametrize("right", ["blocks.to(tl.int64)", "block.to(tl.int64)"])
def test_a_32_bit_offset_is_caught(right: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    addressing = Addressing.BY_POSITION if right.startswith("blocks") else Addressing.BY_BLOCK
    plant(monkeypatch, tmp_path, right, right.replace("int64", "int32"))
    with pytest.raises(AssertionError):
        check_far_blocks(Body.GROUPED, addressing)


@pytest.mark.parametrize("entry", [0, 2])
def test_a_stale_entry_on_the_device_is_caught(entry: int) -> None:
    """The table on the card still names the block a sequence had before."""
    case = make_case([40, 40])
    table = case.sequences.table
    table[0, entry] = table[1, entry]
    with pytest.raises(AssertionError):
        check_decode(case, PLAIN, Body.GROUPED)


def test_the_checks_see_a_bit() -> None:
    """Bit for bit means it: a difference too small for the tolerance fails the comparison with the twin."""
    case = make_case([17], dtype=torch.float32)
    case.cache[case.sequences.host_table[0, 0], 1, 3, 5] *= 1 + 2**-18
    output = decode(case, Addressing.BY_BLOCK, PLAIN, launch_of(case, Body.GROUPED))
    assert worst(output, exact(case, PLAIN)) <= TOLERANCE[torch.float32]
    with pytest.raises(AssertionError, match="BY_POSITION"):
        check_decode(case, PLAIN, Body.GROUPED)
