"""`pagesim doctor`: what works on this machine, and what brings the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from pagesim.validate.doctor.diagnosis import Diagnosis
    from pagesim.validate.doctor.machine import MachineFacts


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, schema pagesim.doctor/1.")] = False,
) -> None:
    """Try every part of pagesim on this machine, each in a process of its own, and say what mends what fails.

    Exit status: 0 if all that is installed works, 1 if something installed is broken, 2 on wrong usage.
    """
    from pagesim.sim.console import progress
    from pagesim.sim.jsontext import dumps
    from pagesim.validate.doctor.diagnosis import NUM_TASKS, diagnose

    with progress("libraries and parts tried", NUM_TASKS) as advance:
        diagnosis = diagnose(advance)
    if as_json:
        print(dumps(diagnosis.document()))
    else:
        _show(diagnosis)
    if not diagnosis.works:
        raise typer.Exit(1)


def _show(diagnosis: Diagnosis) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from pagesim import __version__
    from pagesim.commands.kernel import wide_console

    console = wide_console()
    console.print(f"pagesim {__version__}, Python {diagnosis.machine.python}, {diagnosis.machine.system}")
    for line in machine_lines(diagnosis.machine):
        console.print(line, soft_wrap=True)
    table = Table("library", "version", "of", box=SIMPLE, pad_edge=False)
    for found in diagnosis.packages:
        extra = {None: "the base install", "": "no extra"}.get(found.package.extra, str(found.package.extra))
        table.add_row(found.package.name, found.version or found.problem or "not installed", extra)
    console.print(table)
    table = Table("part", "commands", "status", "found", box=SIMPLE, pad_edge=False)
    for outcome in diagnosis.outcomes:
        table.add_row(outcome.check.name, ", ".join(outcome.check.commands), outcome.status, outcome.found)
    console.print(table)
    _show_end(diagnosis, console)


def machine_lines(machine: MachineFacts) -> list[str]:
    """Processor, memory and cards, a line each."""
    from pagesim.sim.sizes import format_bytes

    def size(num_bytes: int | None) -> str:
        return "unknown" if num_bytes is None else format_bytes(num_bytes)

    limit = "" if machine.limit_bytes is None else f", of which the system allows {size(machine.limit_bytes)}"
    lines = [
        f"processor    {machine.cpu}, {machine.cores} cores, {machine.usable_cores} usable",
        f"memory       {size(machine.memory_bytes)}, {size(machine.available_bytes)} available{limit}",
    ]
    for card in machine.cards:
        lines.append(f"card         {card.name}, {size(card.memory_bytes)}, {card.capability}, seen by {card.seen_by}")
    if not machine.cards:
        lines.append("card         none that CUDA can use")
    if machine.triton_interpret is not None:
        lines.append(f"             TRITON_INTERPRET={machine.triton_interpret} is set, for this process and its like")
    return lines


def _show_end(diagnosis: Diagnosis, console: Console) -> None:
    if diagnosis.mends:
        console.print("To mend it:")
        for command, brings in diagnosis.mends.items():
            console.print(f"  {command}    # {', '.join(brings)}", soft_wrap=True)
    console.print("All that is installed works." if diagnosis.works else "Something that is installed does not work.")
