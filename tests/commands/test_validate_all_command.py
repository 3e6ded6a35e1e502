"""Bare `pagesim validate`: each part's verdict, what cannot run, what makes it differ; parts have tests elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from pagesim.commands import validate_all
from pagesim.commands.validate_all import Part, Verdict
from pagesim.sim.serving.pool import CountingPool
from pagesim.validate.doctor import machine as machine_module
from pagesim.validate.doctor import packages
from pagesim.validate.doctor.machine import machine
from pagesim.validate.doctor.packages import PACKAGES, Found, Status
from pagesim.validate.note import rows as note_rows
from pagesim.validate.note.ours import arithmetic

TORCH = PACKAGES["torch"]
MISSING = Found(TORCH, Status.MISSING, None, None, {})
BROKEN = Found(TORCH, Status.BROKEN, None, "ImportError: libcudart.so.12", {})
WORKS = Found(TORCH, Status.WORKS, "2.13.0", None, {"cuda": None, "cards": []})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch):
    """The command with the torch that is told, and parts that come out as they are told, but for the capacity probe."""

    def call(torch: Found, note: Verdict = Verdict.AGREES) -> None:
        monkeypatch.setattr(packages, "look", lambda package: torch)
        monkeypatch.setattr(machine_module, "_cards_of_driver", lambda: ())
        monkeypatch.setattr(validate_all, "_note", lambda: Part("note", "pagesim validate note", note, "Told."))
        part = Part("replay", "pagesim validate replay", Verdict.AGREES, "Told.")
        monkeypatch.setattr(validate_all, "_replay", lambda torch: part)

    return call


def test_what_cannot_run_is_said_with_its_command_and_is_no_difference(pagesim: Any, quick: Any) -> None:
    quick(MISSING)
    done = pagesim("validate")
    assert done.status == 0
    assert "pagesim validate capacity: not run\n  torch is not installed; pip install 'pagesim[engine]'" in done.out
    assert done.out.endswith("Everything that was run agrees. Not run: capacity.\n")


def test_a_part_that_differs_is_exit_status_1(pagesim: Any, quick: Any) -> None:
    quick(MISSING, note=Verdict.DIFFERS)
    done = pagesim("validate", "--json")
    document = done.json()
    assert done.status == 1 and document["schema"] == "pagesim.validate/1" and not document["agrees"]
    assert [(part["name"], part["verdict"]) for part in document["parts"]] == [
        ("note", "differs"), ("replay", "agrees"), ("capacity", "not run"),
    ]  # fmt: skip
    assert document.keys() == {"schema", "agrees", "machine", "torch", "parts"}
    assert pagesim("validate").out.endswith("Differs: note.\n")


def test_a_broken_torch_is_exit_status_1(pagesim: Any, quick: Any) -> None:
    quick(BROKEN)
    done = pagesim("validate")
    assert done.status == 1 and done.out.endswith("torch is broken: ImportError: libcudart.so.12\n")


def test_too_little_memory_is_said(pagesim: Any, quick: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(WORKS)
    monkeypatch.setattr(machine_module, "free_bytes", lambda: 2**30)
    done = pagesim("validate")
    assert done.status == 0 and "it takes 3.50 GiB of memory, and 1 GiB are to be had" in done.out


def test_the_scheduler_alone_is_replayed_without_torch_and_a_fault_in_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validate_all.validate_replay, "REQUESTS", 40)
    part = validate_all._replay(MISSING)
    assert part.verdict is Verdict.AGREES and part.command.endswith("--no-model")
    assert "40 requests" in part.said and "pip install 'pagesim[engine]'" in part.said
    finish = CountingPool.finish
    monkeypatch.setattr(CountingPool, "finish", lambda self, row, computed: finish(self, row, computed - self._size))
    assert validate_all._replay(MISSING).verdict is Verdict.DIFFERS


def test_a_figure_of_the_note_that_no_longer_agrees_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_rows, "_served", lambda on_progress: [])
    monkeypatch.setattr(note_rows.ours, "placed", lambda on_progress: {})
    found = note_rows.ours.geometry()
    kept = {*found, "noncache_bytes", "pool_70", "pool_85", "pool_95", "pool_blocks"}
    rows = [row for row in note_rows.note().rows if row.id in kept]
    monkeypatch.setattr(note_rows, "note", lambda: note_rows.Note("the note", "a card", tuple(rows)))
    assert validate_all._note().verdict is Verdict.AGREES  # noncache_bytes has never agreed, and says so
    wrong = {**found, "reservation_bytes": arithmetic("Wrong.", 1)}
    monkeypatch.setattr(note_rows.ours, "geometry", lambda: wrong)
    part = validate_all._note()
    assert part.verdict is Verdict.DIFFERS and "These were to agree: reservation_bytes, " in part.said


def test_a_card_is_probed_in_a_type_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def config(capability: str) -> Any:
        return validate_all._capacity_config(
            machine([{"name": "A card", "memory_bytes": 2**34, "capability": capability}])
        )

    old, command = config("7.5")
    assert (old.device, old.dtype, old.memory) == ("cuda", "float16", None) and command.endswith("--dtype float16")
    new, command = config("9.0")
    assert (new.device, new.dtype) == ("cuda", "auto") and command == "pagesim validate capacity --device cuda"


def test_json_before_a_command_is_one_line(pagesim: Any) -> None:
    done = pagesim("validate", "--json", "note")
    assert (done.status, done.out, done.err) == (2, "", "error: --json before note; accepted: behind it\n")
