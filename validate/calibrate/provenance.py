"""What a calibration was measured on, in words: they stand in the profile."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine

CPU_INFO = Path("/proc/cpuinfo")


def measured_on_engine(engine: Engine) -> str:
    """Model, device, dtype, cache, backend, threads, versions, and when."""
    import torch

    config = engine.config
    dtype = str(engine.model.weights.embedding.dtype).removeprefix("torch.")
    threads = torch.get_num_threads()
    graphs = "no CUDA graphs" if engine.runner.graphs is None else "CUDA graphs for decodes"
    return (
        f"{config.model} in {dtype} on {config.device} ({_device_name(config.device)}), "
        f"{threads} thread{'s' if threads > 1 else ''}, cache {config.cache} in blocks of {config.block_size}, "
        f"backend {engine.backend.name} ({graphs}), torch {torch.__version__}, Python {platform.python_version()}, "
        f"{_now()}"
    )


def measured_in_file(path: Path) -> str:
    """All that is known of rows in a file."""
    return f"the rows of {path.name}, read {_now()}; what they were measured on is not known here"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _device_name(device: str) -> str:
    if device != "cpu":
        import torch

        return str(torch.cuda.get_device_name(torch.device(device)))
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
