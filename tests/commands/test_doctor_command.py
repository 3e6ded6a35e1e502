"""`pagesim doctor`, with all there is, with the base install, and with libraries that are broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pagesim.validate.doctor import machine as machine_module
from pagesim.validate.doctor.checks import CHECKS, examine
from pagesim.validate.doctor.machine import CardFacts, machine
from pagesim.validate.doctor.packages import PACKAGES, Found, Package, Status, look

EXTRAS = (
    "torch",
    "triton",
    "transformers",
    "safetensors",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "kaleido",
    "distributed",
    "vllm",
)
BY_NAME = {check.name: check for check in CHECKS}
WITHOUT = """
import sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        if name in {broken}:
            raise ImportError("libsomething.so.1: cannot open shared object file" + chr(10) + "more")
sys.meta_path.insert(0, Finder)
"""


@pytest.fixture
def lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Let every Python that is started from now on lack some libraries, and find others broken."""

    def call(missing: tuple[str, ...], broken: tuple[str, ...] = ()) -> None:
        (tmp_path / "sitecustomize.py").write_text(WITHOUT.format(missing=set(missing) or "()", broken=broken))
        places = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))

    return call


def doctor(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pagesim", "doctor", *options], capture_output=True, text=True)


def everything_works() -> dict[str, Found]:
    return {name: Found(package, Status.WORKS, "1", None, {}) for name, package in PACKAGES.items()}


def test_the_base_install_is_no_fault_and_the_command_for_the_rest_is_given(lacking) -> None:
    lacking(EXTRAS)
    done = doctor("--json")
    document: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert document["schema"] == "pagesim.doctor/1" and document["works"]
    parts = {part["name"]: part for part in document["parts"]}
    for name in ("simulator", "report", "traces", "schedulers"):
        assert parts[name]["status"] == "works", parts[name]
    engine, server = parts["engine, on the CPU"], parts["server"]
    assert (engine["status"], engine["mend"]) == ("missing", "pip install 'pagesim[engine]'")
    assert "torch" in engine["found"] and server["status"] == "missing"
    assert "pip install 'pagesim[engine]'" in [mend["command"] for mend in document["mend"]]
    assert {each["name"]: each["status"] for each in document["packages"]}["torch"] == "missing"


def test_a_broken_library_is_one_line_and_exit_status_1(lacking) -> None:
    lacking(("vllm", "triton", "transformers"), ("torch", "scipy"))
    done = doctor()
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "torch ImportError: libsomething.so.1: cannot open shared object file engine" in lines
    assert any(line.startswith("pip install --force-reinstall torch #") for line in lines)
    assert "Something that is installed does not work." in lines


@pytest.mark.parametrize("name", ["engine, on the CPU", "triton, interpreted", "server"])
def test_a_part_is_really_tried(name: str) -> None:
    for library in BY_NAME[name].needs:
        pytest.importorskip(library, reason="needs the extras")
    outcome = examine(BY_NAME[name], everything_works(), machine([]))
    assert (outcome.status, outcome.mend) == (Status.WORKS, None), outcome.found


def test_an_engine_that_writes_a_slot_too_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs pagesim[engine]")
    from pagesim.kernels.sequences import Sequences
    from pagesim.validate.doctor import engine_trials as trials

    right = Sequences.slots
    monkeypatch.setattr(Sequences, "slots", lambda self, owners, at: right(self, owners, at) + (not self.is_paged))
    with pytest.raises(AssertionError, match="a slot that nobody had written"):
        trials.engine()


def test_a_trial_that_fails_is_broken_with_its_reason(lacking) -> None:
    lacking((), ("simpy",))
    outcome = examine(BY_NAME["simulator"], everything_works(), machine([]))
    assert outcome.status is Status.BROKEN
    assert outcome.found == "ImportError: libsomething.so.1: cannot open shared object file"


def test_a_card_that_torch_cannot_use_is_broken_and_none_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    check = BY_NAME["engine, on a card"]
    packages = everything_works()
    monkeypatch.setattr(machine_module, "_cards_of_driver", lambda: ())
    assert examine(check, packages, machine([])).status is Status.NOT_HERE
    card = CardFacts("Tesla T4", 2**34, "7.5", "nvidia-smi")
    monkeypatch.setattr(machine_module, "_cards_of_driver", lambda: (card,))
    packages["torch"] = Found(PACKAGES["torch"], Status.WORKS, "2.13.0", None, {"cuda": None})
    found = examine(check, packages, machine([]))
    assert found.status is Status.BROKEN and "built without CUDA" in found.found
    assert found.mend == "pip install --force-reinstall torch"
    packages["torch"] = Found(PACKAGES["torch"], Status.WORKS, "2.13.0", None, {"cuda": "13.0"})
    found = examine(check, packages, machine([]))
    assert found.status is Status.BROKEN and found.mend is None and "the driver may be older" in found.found


def test_the_driver_is_read_as_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'Tesla T4, 15360, 7.5, 580.1'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert machine([]).cards == (CardFacts("Tesla T4", 15360 * 2**20, "7.5", "nvidia-smi"),)
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n")
    assert machine([]).cards == ()


def test_a_library_that_is_not_there() -> None:
    found = look(Package("no_such_library", "engine"))
    assert (found.status, found.mend) == (Status.MISSING, "pip install 'pagesim[engine]'")
