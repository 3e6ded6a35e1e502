"""Everything that the doctor says, as one value: the JSON of schema pagesim.doctor/1."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pagesim import __version__
from pagesim.validate.doctor.checks import CHECKS, Outcome, examine
from pagesim.validate.doctor.machine import MachineFacts, machine, usable_cores
from pagesim.validate.doctor.packages import PACKAGES, Found, Status, look

SCHEMA = "pagesim.doctor/1"
MOST_AT_ONCE = 4  # a child that loads torch takes some hundreds of MiB
NUM_TASKS = len(PACKAGES) + len(CHECKS)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The machine, the libraries, and the parts of pagesim."""

    machine: MachineFacts
    packages: tuple[Found, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def works(self) -> bool:
        """Whether nothing that is installed is broken. What is not installed, or not for this machine, is no fault."""
        found = [each.status for each in self.packages] + [each.status for each in self.outcomes]
        return Status.BROKEN not in found

    @property
    def mends(self) -> dict[str, list[str]]:
        """Command to what it brings, each once, in the order of the parts."""
        found: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            if outcome.mend is not None:
                found.setdefault(outcome.mend, []).append(outcome.check.name)
        for package in self.packages:
            if package.status is Status.BROKEN and package.mend is not None:
                found.setdefault(package.mend, []).append(package.package.name)
        return found

    def document(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "schema": SCHEMA,
            "pagesim": __version__,
            "works": self.works,
            "machine": self.machine.as_json(),
            "packages": [_package(found) for found in self.packages],
            "parts": [outcome.as_json() for outcome in self.outcomes],
            "mend": [{"command": command, "brings": brings} for command, brings in self.mends.items()],
        }


def diagnose(advance: Callable[[int], None] = lambda count: None) -> Diagnosis:
    """Look at every library, then try every part; `advance(1)` after each of NUM_TASKS."""

    def counted(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(what: Any) -> Any:
            result = work(what)
            advance(1)
            return result

        return run

    with ThreadPoolExecutor(max(1, min(MOST_AT_ONCE, usable_cores()))) as threads:
        packages = {found.package.name: found for found in threads.map(counted(look), PACKAGES.values())}
        facts = machine(packages["torch"].facts.get("cards", []))
        outcomes = tuple(threads.map(counted(lambda check: examine(check, packages, facts)), CHECKS))
    return Diagnosis(facts, tuple(packages.values()), outcomes)


def _package(found: Found) -> dict[str, Any]:
    return {
        "name": found.package.name,
        "extra": found.package.extra,
        "status": found.status,
        "version": found.version,
        "problem": found.problem,
        "mend": found.mend,
    }
