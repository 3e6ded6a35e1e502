"""Bare `pagesim validate`: the short set, whatever of it this machine can run, each part with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from pagesim.commands import validate_capacity, validate_replay
from pagesim.commands.doctor import machine_lines

if TYPE_CHECKING:
    from pagesim.engine.config import EngineConfig
    from pagesim.validate.doctor.machine import MachineFacts
    from pagesim.validate.doctor.packages import Found

HALF_PRECISION_SINCE = (8, 0)  # bfloat16; older cards have float16, of the same size
SPARE_BYTES = 2**29  # beside what is probed, for the processes themselves


class Verdict(StrEnum):
    """What came of a part."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_RUN = "not run"  # it needs what is not installed, or more memory than there is


@dataclass(frozen=True, slots=True)
class Part:
    """`command`: what runs it by itself. `said`: in a sentence, what came of it, or why it was not run."""

    name: str
    command: str
    verdict: Verdict
    said: str


def validate_all(as_json: bool) -> None:
    """Run the set. Exits with 1 if a part differs, or if torch is installed and broken."""
    from pagesim.commands.kernel import one_line_errors
    from pagesim.sim.jsontext import dumps
    from pagesim.validate.doctor.machine import machine
    from pagesim.validate.doctor.packages import PACKAGES, Status, look

    torch = look(PACKAGES["torch"])
    facts = machine(torch.facts.get("cards", []))
    if not as_json:
        for line in (*machine_lines(facts), f"torch        {torch.version or torch.problem or 'not installed'}"):
            typer.echo(line)
    parts: list[Part] = []
    works: list[Callable[[], Part]] = [_note, lambda: _replay(torch), lambda: _capacity(torch, facts)]
    with one_line_errors():
        for work in works:
            parts.append(work())
            if not as_json:
                typer.echo(f"\n{parts[-1].command}: {parts[-1].verdict}\n  {parts[-1].said}")
    agrees = torch.status is not Status.BROKEN and all(part.verdict is not Verdict.DIFFERS for part in parts)
    if as_json:
        print(dumps(_document(agrees, facts, torch, parts)))
    else:
        typer.echo(f"\n{_end(agrees, torch, parts)}")
    if not agrees:
        raise typer.Exit(1)


def _document(agrees: bool, facts: MachineFacts, torch: Found, parts: list[Part]) -> dict[str, Any]:
    return {
        "schema": "pagesim.validate/1",
        "agrees": agrees,
        "machine": facts.as_json(),
        "torch": {"status": torch.status, "version": torch.version, "problem": torch.problem},
        "parts": [
            {"name": part.name, "command": part.command, "verdict": part.verdict, "said": part.said} for part in parts
        ],
    }


def _end(agrees: bool, torch: Found, parts: list[Part]) -> str:
    left = [part.name for part in parts if part.verdict is Verdict.NOT_RUN]
    if not agrees:
        differing = [part.name for part in parts if part.verdict is Verdict.DIFFERS]
        return f"Differs: {', '.join(differing)}." if differing else f"torch is broken: {torch.problem}"
    return "Everything that was run agrees." + (f" Not run: {', '.join(left)}." if left else "")


def _note() -> Part:
    """A row that was to agree with the note and does not makes it differ; one that never did is no news."""
    from collections import Counter

    from pagesim.sim.console import progress
    from pagesim.validate.note.rows import note_rows, num_requests

    with progress("requests simulated", num_requests()) as advance:
        rows = note_rows(advance)
    short = [f"{row.id}, {row.what}" for row in rows if row.fell_short]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(row.standing.value for row in rows).items())
    said = f"{len(rows)} figures of the note beside ours: {counts}."
    if short:
        said += f" These were to agree: {'; '.join(short)}."
    return Part("note", "pagesim validate note", Verdict.DIFFERS if short else Verdict.AGREES, said)


def _replay(torch: Found) -> Part:
    """With the model where torch is, else the scheduler alone."""
    from pagesim.commands.reading import DEFAULTS
    from pagesim.commands.replay_setup import Machine, Pool, Wish
    from pagesim.validate.replay import words

    r = validate_replay
    machine = None if _lacks(torch) else Machine(r.MODEL, r.DEVICE)
    wish = Wish(r.LOAD, None, DEFAULTS, {"num_requests": None}, r.REQUESTS, 0, None)
    result = r.carry_out(wish.setup({"max_model_len": r.MAX_MODEL_LEN}, Pool(None, None, None), machine))
    command = f"pagesim validate replay --load {r.LOAD}{'' if machine else ' --no-model'}"
    said = [words.verdict(result), *words.findings(result), *([] if machine else [f"No model ran: {_lacks(torch)}"])]
    return Part("replay", command, Verdict.AGREES if result.agrees else Verdict.DIFFERS, " ".join(said))


def _capacity(torch: Found, facts: MachineFacts) -> Part:
    """On the card if torch can use one, else on the CPU if there is memory for it."""
    from pagesim.sim.sizes import format_bytes
    from pagesim.validate.doctor.machine import free_bytes

    config, command = _capacity_config(facts)
    lacking, free = _lacks(torch), free_bytes()
    if lacking is None and config.memory is not None and free is not None and free < config.memory + SPARE_BYTES:
        wanted = format_bytes(config.memory + SPARE_BYTES)
        lacking = f"it takes {wanted} of memory, and {format_bytes(free)} are to be had; --memory takes less."
    if lacking is not None:
        return Part("capacity", command, Verdict.NOT_RUN, lacking)
    result = validate_capacity.carry_out(config, [])
    said = [validate_capacity.verdict(result), *result.findings]
    return Part("capacity", command, Verdict.AGREES if result.agrees else Verdict.DIFFERS, " ".join(said))


def _capacity_config(facts: MachineFacts) -> tuple[EngineConfig, str]:
    from pagesim.engine.config import EngineConfig
    from pagesim.sim.sizes import parse_bytes

    c, command = validate_capacity, "pagesim validate capacity"
    card = next((card for card in facts.cards if card.seen_by == "torch"), None)
    if card is None:
        memory = parse_bytes(c.CPU_MEMORY, "--memory")
        return EngineConfig(c.MODEL, memory=memory, max_model_len=c.MAX_MODEL_LEN), command
    major, minor = map(int, card.capability.split("."))
    dtype = "auto" if (major, minor) >= HALF_PRECISION_SINCE else "float16"
    command += " --device cuda" + ("" if dtype == "auto" else f" --dtype {dtype}")
    return EngineConfig(c.MODEL, "cuda", dtype, max_model_len=c.MAX_MODEL_LEN), command


def _lacks(torch: Found) -> str | None:
    """Why no engine can run, with the command that helps."""
    from pagesim.validate.doctor.packages import Status

    if torch.status is Status.WORKS:
        return None
    return f"torch is {torch.problem or 'not installed'}; {torch.mend} brings it."
