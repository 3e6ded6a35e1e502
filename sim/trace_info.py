"""Everything that `pagesim trace info` says of one trace, as one value: an entry of schema pagesim.trace-info/1."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagesim.sim.hash_sharing import HashSharing
from pagesim.sim.reading import ReadReport
from pagesim.sim.trace import Trace
from pagesim.sim.trace_stats import trace_stats


def trace_info(path: Path, trace: Trace, report: ReadReport) -> dict[str, Any]:
    """Figures of the trace and of how it was read, keys in the order they are printed."""
    stats = trace_stats(trace)
    figures = asdict(stats)
    figures["sharing"] = None if stats.sharing is None else _sharing(stats.sharing)
    return {"path": str(path), "format": report.format, **figures, "reading": report.as_dict()}


def _sharing(sharing: HashSharing) -> dict[str, Any]:
    return {**asdict(sharing), "block_share": sharing.block_share, "token_share": sharing.token_share}
