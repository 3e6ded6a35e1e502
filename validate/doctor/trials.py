"""The trials by name, each small, each the real thing; in a child, `python -m pagesim.validate.doctor.trials`.

A trial returns what it found in a few words, or raises. The question is {"import": library} or {"trial": name}.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib import metadata
from typing import Any

from pagesim.validate.child import Advance, answer
from pagesim.validate.doctor import engine_trials as e
from pagesim.validate.doctor import sim_trials as s

TRIALS: dict[str, Callable[[], str]] = {
    trial.__name__: trial
    for trial in (
        s.simulator, s.report, s.traces, s.schedulers, s.images, s.cluster, s.vllm,
        e.engine, e.checkpoint, e.interpreter, e.compiler, e.card, e.card_kernels, e.server,
    )
}  # fmt: skip


def _imported(name: str) -> dict[str, Any]:
    """Version, and of torch what it says of its cards."""
    module = importlib.import_module(name)
    found: dict[str, Any] = {"version": _version(name, module)}
    if name == "torch":
        found |= {"cuda": module.version.cuda, "cards": _cards(module)}
    return found


def _version(name: str, module: Any) -> str | None:
    own = getattr(module, "__version__", None)
    try:
        return str(own or metadata.version(name.replace("_", "-")))
    except metadata.PackageNotFoundError:
        return None


def _cards(torch: Any) -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return []
    each = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return [
        {"name": facts.name, "memory_bytes": facts.total_memory, "capability": f"{facts.major}.{facts.minor}"}
        for facts in each
    ]


def _work(question: dict[str, str], advance: Advance) -> Any:
    return _imported(question["import"]) if "import" in question else TRIALS[question["trial"]]()


if __name__ == "__main__":
    answer(_work)
