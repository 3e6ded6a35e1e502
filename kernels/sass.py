"""What can be read off a compiled kernel without running it: registers, stack, the instructions of its loop.

A count is not a time: what a dependent load costs depends on its latency, which only a card shows.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pagesim.kernels.errors import BackendError

LABEL = re.compile(r"^\s*(\.L_x_\d+):")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
BRANCH = re.compile(r"\bBRA\b.*`\((\.L_x_\d+)\)")
MMA = r"\bH(G)?MMA\b"  # not HFMA2.MMA, which is no tensor-core instruction
USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")


@dataclass(frozen=True, slots=True)
class CodeCounts:
    """`stack_bytes` and `spill_instructions` are 0 where every value has a register. `loop_*` count one pass."""

    registers: int
    stack_bytes: int
    spill_instructions: int
    loop_instructions: int
    loop_loads: int
    loop_mma: int
    mma: int


def count_code(cubin: bytes, tools: Path) -> CodeCounts:
    """Read a compiled kernel with `cuobjdump` and `nvdisasm` from `tools`. Raises BackendError if they fail."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = USAGE.search(_output(tools / "cuobjdump", "-res-usage", file.name))
        code = instructions(_output(tools / "nvdisasm", "-c", file.name))
    if usage is None:
        raise BackendError("cuobjdump printed no resource usage; accepted: the one that triton bundles")
    loop = largest_loop(*code)
    return CodeCounts(
        registers=int(usage[1]),
        stack_bytes=int(usage[2]),
        spill_instructions=_count(code[0], r"\b(LDL|STL)\b"),
        loop_instructions=len(loop),
        loop_loads=_count(loop, r"\b(LDG|LDGSTS)\b"),
        loop_mma=_count(loop, MMA),
        mma=_count(code[0], MMA),
    )


def instructions(listing: str) -> tuple[list[str], dict[str, int]]:
    """The instructions of an `nvdisasm -c` listing, and for each label the place of the instruction after it."""
    code: list[str] = []
    labels: dict[str, int] = {}
    for line in listing.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(code)
        elif instruction := INSTRUCTION.match(line):
            code.append(instruction[1])
    return code, labels


def largest_loop(code: list[str], labels: dict[str, int]) -> list[str]:
    """What lies between a backward branch and its target, for the branch that spans most: the loop over tiles."""
    loops = [
        code[labels[branch[1]] : place + 1]
        for place, line in enumerate(code)
        if (branch := BRANCH.search(line)) and labels[branch[1]] < place
    ]
    return max(loops, key=len, default=[])


def _count(code: list[str], pattern: str) -> int:
    return sum(re.search(pattern, line) is not None for line in code)


def _output(*command: str | Path) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BackendError(f"{command[0]} failed ({error}); accepted: the tool that triton bundles") from error
