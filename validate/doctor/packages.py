"""The libraries that pagesim uses: which are installed, which cannot be imported, and the command that brings each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pagesim.validate.child import in_child
from pagesim.validate.vllm.versions import SUPPORTED

TIMEOUT_S = 120.0


class Status(StrEnum):
    """How a library or a part of pagesim stands."""

    WORKS = "works"
    MISSING = "missing"  # not installed, or something that it needs is not
    BROKEN = "broken"  # installed, and fails
    NOT_HERE = "not here"  # this machine has not what it takes, and no command brings it


@dataclass(frozen=True, slots=True)
class Package:
    """A library by the name it is imported by. `extra` None: the base install brings it; "": no extra of ours does.

    `release`: the one that is wanted, where only one will do.
    """

    name: str
    extra: str | None = None
    release: str = ""

    @property
    def install(self) -> str:
        """The command that brings it."""
        return (
            f"pip install 'pagesim[{self.extra}]'" if self.extra else f"pip install {self.distribution}{self.release}"
        )

    @property
    def reinstall(self) -> str:
        """The command that may mend it."""
        return f"pip install --force-reinstall {self.distribution}{self.release}"

    @property
    def distribution(self) -> str:
        """As pip calls it."""
        return self.name.replace("_", "-")


BASE = ("simpy", "numpy", "scipy", "pyarrow", "msgspec", "plotly", "jinja2", "sortedcontainers")
ENGINE = ("torch", "triton", "transformers", "safetensors")
SERVE = ("starlette", "uvicorn", "prometheus_client")
PACKAGES = {
    package.name: package
    for package in (
        *(Package(name) for name in BASE),
        *(Package(name, "engine") for name in ENGINE),
        *(Package(name, "serve") for name in SERVE),
        Package("kaleido", "images"),
        Package("distributed", "cluster"),
        Package("vllm", "", f"=={SUPPORTED[0]}"),
    )
}
EXTRAS = {package.name: package.extra for package in PACKAGES.values() if package.extra}


@dataclass(frozen=True, slots=True)
class Found:
    """One library as it is. `problem`: why it cannot be imported, in a line. `facts`: what torch says of its cards."""

    package: Package
    status: Status
    version: str | None
    problem: str | None
    facts: dict[str, Any]

    @property
    def mend(self) -> str | None:
        """The command for it, if there is one to give."""
        return {Status.MISSING: self.package.install, Status.BROKEN: self.package.reinstall}.get(self.status)


def look(package: Package) -> Found:
    """Import one library in a child."""
    answer = in_child("pagesim.validate.doctor.trials", {"import": package.name}, timeout_s=TIMEOUT_S)
    if answer.problem is None:
        return Found(package, Status.WORKS, answer.value.pop("version"), None, answer.value)
    if answer.missing == package.name:
        return Found(package, Status.MISSING, None, None, {})
    return Found(package, Status.BROKEN, None, answer.problem, {})
