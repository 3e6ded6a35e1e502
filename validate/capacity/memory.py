"""What the operating system says that this process has, and a limit on it that the system enforces. Linux alone.

The limit is on private writable memory (RLIMIT_DATA): heap, arrays, stacks. It counts what is promised, touched or not,
so whoever is held to it must touch what is given out, and `touched_bytes` shows that it was. RLIMIT_AS would count
libraries and address space that costs nothing; RLIMIT_RSS is not enforced.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from pagesim.engine.errors import ConfigError


def promised_bytes() -> int:
    """Private writable memory of this process: what the limit counts."""
    return _status("VmData")


def touched_bytes() -> int:
    """Of anonymous memory, what has been written and so lies in real memory, or was put out of it again."""
    return _status("RssAnon") + _status("VmSwap")


def limit_promised(num_bytes: int) -> None:
    """Let the system refuse what would go past `num_bytes`. Raises ConfigError where it cannot."""
    if not sys.platform.startswith("linux"):
        raise ConfigError(
            f"device is cpu on {sys.platform}, which enforces no limit on memory; accepted: Linux, or cuda"
        )
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (num_bytes, hard))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ConfigError(f"the system does not say {name} of a process; accepted: Linux, or cuda")
