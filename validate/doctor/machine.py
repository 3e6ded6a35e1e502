"""What this machine is: processor, memory, cards as the driver names them. Nothing is loaded for it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SMI = ("--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader,nounits")
SMI_TIMEOUT_S = 20.0
MEMINFO = Path("/proc/meminfo")
CONTROL_GROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class CardFacts:
    """A CUDA card. `seen_by`: torch, or nvidia-smi alone, which no part of pagesim can use."""

    name: str
    memory_bytes: int
    capability: str
    seen_by: str


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """`usable_cores`: that this process may run on. `limit_bytes`: of memory, where the system sets one to it."""

    python: str
    system: str
    cpu: str
    cores: int
    usable_cores: int
    memory_bytes: int | None
    available_bytes: int | None
    limit_bytes: int | None
    triton_interpret: str | None
    cards: tuple[CardFacts, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {**asdict(self), "cards": [asdict(card) for card in self.cards]}


def machine(cards_of_torch: list[dict[str, Any]]) -> MachineFacts:
    """This one. `cards_of_torch`: what torch says of its cards; if nothing, the driver is asked."""
    cards = tuple(CardFacts(**card, seen_by="torch") for card in cards_of_torch) or _cards_of_driver()
    return MachineFacts(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        usable_cores=usable_cores(),
        memory_bytes=_meminfo("MemTotal"),
        available_bytes=_meminfo("MemAvailable"),
        limit_bytes=_limit(),
        triton_interpret=os.environ.get("TRITON_INTERPRET"),
        cards=cards,
    )


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_bytes() -> int | None:
    """Memory that can be taken now without another's being put out; None where the system does not say."""
    known = [size for size in (_meminfo("MemAvailable"), _limit()) if size is not None]
    return min(known, default=None)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "unknown"


def _meminfo(name: str) -> int | None:
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        lines = []
    for line in lines:
        words = line.split()
        if words[0] == f"{name}:" and words[1].isdigit():
            return int(words[1]) * 1024
    if name == "MemTotal" and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _limit() -> int | None:
    try:
        text = CONTROL_GROUP.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdigit() else None


def _cards_of_driver() -> tuple[CardFacts, ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    try:
        done = subprocess.run([tool, *SMI], capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    return tuple(
        CardFacts(row[0], int(row[1]) * 2**20, row[2], "nvidia-smi")
        for row in rows
        if done.returncode == 0 and len(row) == 4 and row[1].isdigit()
    )
