"""The sources of rows: an engine, or a file. Each ends in the same fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pagesim.sim.errors import UsageError
from pagesim.validate.calibrate.calibration import Calibration, calibrate
from pagesim.validate.calibrate.design import Reach, loads
from pagesim.validate.calibrate.provenance import measured_in_file, measured_on_engine
from pagesim.validate.calibrate.rows_csv import read_rows
from pagesim.validate.calibrate.shape import BatchTime

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine
    from pagesim.validate.calibrate.timing import Timer

REPEATS = 5
MOST_SEQUENCES = 64  # at once, unless told
MOST_SEQUENCE_TOKENS = 1024
OnProgress = Callable[[int], None]


def reach_of(engine: Engine, sequences: int | None = None, sequence_tokens: int | None = None) -> Reach:
    """As far as the engine goes, but not beyond MOST_SEQUENCES and MOST_SEQUENCE_TOKENS unless that is asked for.

    Raises UsageError on what is beyond the engine.
    """
    config = engine.config
    if config.max_num_seqs < 2:
        raise UsageError("--max-num-seqs 1: every step has one sequence, and a price for both; accepted: 2 or more")
    for flag, wish, least, most in (
        ("--sequences", sequences, 1, config.max_num_seqs),
        ("--longest", sequence_tokens, 64, engine.max_model_len),
    ):
        if wish is not None and not least <= wish <= most:
            raise UsageError(f"{flag} {wish}; accepted: {least} to {most}, as far as the engine goes")
    return Reach(
        sequences or min(MOST_SEQUENCES, config.max_num_seqs),
        sequence_tokens or min(MOST_SEQUENCE_TOKENS, engine.max_model_len),
        engine.cache.num_rows * engine.cache.row_tokens,
    )


def from_engine(
    engine: Engine,
    timer: Timer,
    reach: Reach,
    repeats: int = REPEATS,
    advance: OnProgress = lambda loads: None,
    keep: Callable[[list[BatchTime]], object] = lambda rows: None,
) -> tuple[Calibration, list[BatchTime]]:
    """Time the design on an engine whose `on_step` is `timer.note`. Torch has as many threads as it is to have.
    `keep` is given the rows after each repeat: the fit may fail, and somebody may stop it.

    Raises UsageError if the engine has no room for a design that tells the kinds of work apart.
    """
    design = loads(reach)
    if not any(load.held_out for load in design) or all(load.held_out for load in design):
        raise UsageError(
            f"a pool of {reach.pool_tokens:,} tokens and sequences of {reach.sequence_tokens:,} have no room for a "
            "calibration; accepted: sequences of 64 tokens or more, and a pool of several"
        )
    times, noise = timer.measure(engine, design, repeats, advance, keep)
    source = (
        f"{len(design)} loads of up to {reach.sequences} sequences at once, of up to {reach.sequence_tokens:,} tokens, "
        "through the engine's own loop; larger batches and longer sequences are extrapolated"
    )
    return calibrate(times, measured_on_engine(engine), source, noise), times


def from_file(path: Path) -> Calibration:
    """Of rows in a CSV. Raises UsageError."""
    times = read_rows(path)
    try:
        return calibrate(times, measured_in_file(path), f"{len(times)} rows of {path.name}")
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
