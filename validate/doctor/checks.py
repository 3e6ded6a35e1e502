"""The parts of pagesim: what each is for, what it needs, and what trying it came to."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pagesim.validate.child import in_child
from pagesim.validate.doctor.machine import MachineFacts
from pagesim.validate.doctor.packages import BASE, PACKAGES, SERVE, Found, Status

TIMEOUT_S = 180.0
INTERPRET = {"TRITON_INTERPRET": "1"}
COMPILE = {"TRITON_INTERPRET": None}
CUDA_TORCH = "pip install --force-reinstall torch"


@dataclass(frozen=True, slots=True)
class Check:
    """A part by name. `commands`: what it is for. `environment`: what its trial is run with.

    `on_card`: it takes a CUDA card; `on_linux`: Linux, for which alone Triton and vLLM are made.
    """

    name: str
    commands: tuple[str, ...]
    needs: tuple[str, ...]
    trial: str
    environment: Mapping[str, str | None]
    on_card: bool = False
    on_linux: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a part stands. `found`: what its trial saw, or why there was none. `mend`: the command, if any."""

    check: Check
    status: Status
    found: str
    mend: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "name": self.check.name,
            "commands": list(self.check.commands),
            "needs": list(self.check.needs),
            "status": self.status,
            "found": self.found,
            "mend": self.mend,
        }


WEIGHTS = ("torch", "safetensors")
CHECKS = (
    Check("simulator", ("run", "capacity", "sweep", "quiz", "validate note"), BASE, "simulator", {}),
    Check("report", ("run --html", "plot"), BASE, "report", {}),
    Check("traces", ("trace", "run --trace"), BASE, "traces", {}),
    Check("schedulers", ("validate replay --no-model",), BASE, "schedulers", {}),
    Check(
        "engine, on the CPU",
        ("generate", "bench engine", "calibrate", "validate replay", "validate capacity"),
        ("torch",), "engine", COMPILE,
    ),
    Check("checkpoints", ("generate --model FOLDER",), ("torch", "transformers", "safetensors"), "checkpoint", COMPILE),
    Check(
        "triton, interpreted", ("generate --backend triton",), ("torch", "triton"), "interpreter", INTERPRET,
        on_linux=True,
    ),
    Check(
        "triton, compiled without a card", ("bench attention --on static",), ("torch", "triton"), "compiler", COMPILE,
        on_linux=True,
    ),
    Check("engine, on a card", ("bench engine --device cuda",), WEIGHTS, "card", COMPILE, on_card=True),
    Check(
        "triton, on a card", ("bench engine --device cuda --backend triton", "bench attention --on cuda"),
        (*WEIGHTS, "triton"), "card_kernels", COMPILE, on_card=True, on_linux=True,
    ),
    Check("server", ("serve",), ("torch", *SERVE), "server", COMPILE),
    Check("images", ("plot OUT.png",), ("kaleido",), "images", {}),
    Check("cluster", ("sweep --cluster",), ("distributed",), "cluster", {}),
    Check("vllm", ("validate vllm",), ("vllm",), "vllm", COMPILE, on_linux=True),
)  # fmt: skip
assert {name for check in CHECKS for name in check.needs} == PACKAGES.keys()


def examine(check: Check, packages: Mapping[str, Found], machine: MachineFacts) -> Outcome:
    """Try one part, unless what it needs is not there."""
    elsewhere = _elsewhere(check, packages.get("torch"), machine)
    if elsewhere is not None:
        return elsewhere
    for status in (Status.MISSING, Status.BROKEN):
        lacking = [found for name in check.needs if (found := packages[name]).status is status]
        if lacking:
            names = ", ".join(found.package.name for found in lacking)
            why = "not installed" if status is Status.MISSING else lacking[0].problem or "cannot be imported"
            return Outcome(check, status, f"{names}: {why}", lacking[0].mend)
    question = {"trial": check.trial}
    answer = in_child("pagesim.validate.doctor.trials", question, timeout_s=TIMEOUT_S, environment=check.environment)
    if answer.problem is None:
        return Outcome(check, Status.WORKS, answer.value, None)
    return Outcome(check, Status.BROKEN, answer.problem, None)


def _elsewhere(check: Check, torch: Found | None, machine: MachineFacts) -> Outcome | None:
    """Where the machine has not what it takes; or has a card that torch cannot use."""
    if check.on_linux and sys.platform != "linux":
        return Outcome(check, Status.NOT_HERE, "this is no Linux", None)
    if not check.on_card:
        return None
    if not machine.cards:
        return Outcome(check, Status.NOT_HERE, "no CUDA card was found", None)
    if torch is None or torch.status is not Status.WORKS or machine.cards[0].seen_by == "torch":
        return None
    build = torch.facts.get("cuda")
    if build is None:
        why = f"the driver sees {machine.cards[0].name}, and torch {torch.version} is built without CUDA"
        return Outcome(check, Status.BROKEN, why, CUDA_TORCH)
    why = f"the driver sees {machine.cards[0].name}, and torch {torch.version}, built for CUDA {build}, cannot use it"
    return Outcome(check, Status.BROKEN, f"{why}: the driver may be older than that", None)
