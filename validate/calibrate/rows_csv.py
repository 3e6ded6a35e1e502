"""Batch times as CSV: one row for each batch, `decodes,contexts,prefills,seconds`, and maybe `group` and `held_out`.

`prefills` are chunks of prompts, TOKENS@BEHIND with spaces between them, or nothing. Without `group` rows of one shape
are repeats, a group, of which the median counts; without `held_out` a quarter of the groups, drawn, is held out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from pagesim.sim.errors import UsageError
from pagesim.sim.files import atomic
from pagesim.validate.calibrate.shape import BatchTime, Chunk, Shape

REQUIRED = ("decodes", "contexts", "prefills", "seconds")
OPTIONAL = ("group", "held_out")
HELD_OUT = {"yes": True, "no": False}
HELD_OUT_SHARE = 4  # one group of so many
SHOWN = 40  # characters of a value that is wrong
MOST_DIGITS = 12  # of a count: the squares of what is added up of them are numbers still
LEAST_S, MOST_S = 1e-9, 1e9  # of a batch


def read_rows(path: Path) -> list[BatchTime]:
    """Raises UsageError that names the file, the line, the field and its value."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            _check_header(path, reader.fieldnames)
            rows = [(reader.line_num, _row(path, reader.line_num, fields)) for fields in reader]
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: not CSV in UTF-8 ({error})") from error
    if not rows:
        raise UsageError(f"{path}: no rows; accepted: a header and a row for each batch")
    _check_groups(path, rows)
    times, names = [time for _, time in rows], reader.fieldnames or ()
    if "group" not in names:
        times = list(_medians(times))
    return times if "held_out" in names else _drawn(times)


def write_rows(path: Path, times: Sequence[BatchTime]) -> None:
    """What `read_rows` reads back as it is. Raises UsageError if `path` cannot be written."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*REQUIRED, *OPTIONAL))
        for time in times:
            chunks = " ".join(f"{tokens}@{behind}" for tokens, behind in time.shape.chunks)
            held_out = next(word for word, value in HELD_OUT.items() if value is time.held_out)
            writer.writerow((time.shape.decodes, time.shape.contexts, chunks, repr(time.seconds), time.group, held_out))


def _check_header(path: Path, names: Sequence[str] | None) -> None:
    accepted = f"accepted: {', '.join(REQUIRED)}, and if wanted {' and '.join(OPTIONAL)}, each once"
    if names is None:
        raise UsageError(f"{path}: empty; {accepted}")
    for name in REQUIRED:
        if name not in names:
            raise UsageError(f"{path}, line 1: no column {name}; {accepted}")
    for name in names:
        if name not in (*REQUIRED, *OPTIONAL) or names.count(name) > 1:
            raise UsageError(f"{path}, line 1: column '{name[:SHOWN]}'; {accepted}")


def _row(path: Path, line: int, fields: Mapping[str | None, str | None]) -> BatchTime:
    def wrong(name: str, accepted: str) -> UsageError:
        return UsageError(f"{path}, line {line}: {name} is '{str(fields[name])[:SHOWN]}'; accepted: {accepted}")

    def count(name: str) -> int:
        text = (fields[name] or "").strip()
        if not _is_count(text):
            raise wrong(name, f"a whole number, 0 or more (0 for none), of at most {MOST_DIGITS} digits")
        return int(text)

    if None in fields or None in fields.values():
        raise UsageError(f"{path}, line {line}: not as many fields as the header; accepted: one for each column")
    decodes, contexts = count("decodes"), count("contexts")
    if contexts < decodes or (contexts and not decodes):
        raise wrong("contexts", f"at least one for each of the {decodes} decodes, its own token, and 0 without any")
    try:
        chunks = tuple(_chunk(text) for text in (fields["prefills"] or "").split())
    except ValueError:
        raise wrong(
            "prefills",
            f"TOKENS@BEHIND like 256@0, tokens 1 or more, of at most {MOST_DIGITS} digits, spaces between them",
        ) from None
    if not decodes and not chunks:
        raise wrong("prefills", "a chunk, where nothing decodes")
    try:
        seconds = float(fields["seconds"] or "")
    except ValueError:
        seconds = math.nan
    if not LEAST_S <= seconds <= MOST_S:
        raise wrong("seconds", f"a number above 0, from {LEAST_S:g} to {MOST_S:g}")
    held_out = (fields.get("held_out") or "no").strip()
    if held_out not in HELD_OUT:
        raise wrong("held_out", " or ".join(HELD_OUT))
    shape = Shape(decodes, contexts, chunks)
    name = fields.get("group")
    return BatchTime(shape, seconds, _name(shape) if name is None else name, HELD_OUT[held_out])


def _chunk(text: str) -> Chunk:
    tokens, at, behind = text.partition("@")
    if not (at and _is_count(tokens) and _is_count(behind) and int(tokens)):
        raise ValueError
    return Chunk(int(tokens), int(behind))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def _name(shape: Shape) -> str:
    chunks = (f"{tokens}@{behind}" for tokens, behind in shape.chunks)
    return " ".join((f"{shape.decodes} decodes of {shape.contexts}", *chunks))


def _check_groups(path: Path, rows: Sequence[tuple[int, BatchTime]]) -> None:
    """Nothing is both fitted on and held out."""
    sides: dict[str, bool] = {}
    for line, time in rows:
        if sides.setdefault(time.group, time.held_out) is not time.held_out:
            raise UsageError(
                f"{path}, line {line}: group '{time.group[:SHOWN]}' is held out here and not in a line above, or the "
                "other way round; accepted: a group on one side"
            )


def _drawn(times: Sequence[BatchTime]) -> list[BatchTime]:
    """A quarter of the groups is held out, one at least: the same ones each time."""
    names = list(dict.fromkeys(time.group for time in times))
    chosen = np.random.default_rng(0).permutation(len(names))[: max(1, len(names) // HELD_OUT_SHARE)]
    held_out = {names[k] for k in chosen.tolist()}
    return [BatchTime(time.shape, time.seconds, time.group, time.group in held_out) for time in times]


def _medians(times: Sequence[BatchTime]) -> Iterator[BatchTime]:
    """The same rows, each with the median of the times of its shape."""
    found: dict[Shape, list[float]] = {}
    for time in times:
        found.setdefault(time.shape, []).append(time.seconds)
    for time in times:
        yield BatchTime(time.shape, float(np.median(found[time.shape])), time.group, time.held_out)
