"""The step log: one JSON object a line, in the columns of the recordings of vLLM's scheduler, and the time.

    {"step": 4, "t": 0.5, "running": 2, "waiting": 1, "scheduled_tokens": 2, "blocks_used": 7,
     "admitted": [], "preempted": ["C"], "finished": []}

Counts are those after scheduling and before outputs; `admitted` holds [id, tokens found in the prefix cache].
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pagesim.engine.errors import ConfigError
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step

Row = dict[str, object]


def step_row(step: Step, finished: Iterable[Sequence], t_s: float) -> Row:
    """The line of one step that ended with `finished`; `t_s`: seconds since the run began, when it was scheduled."""
    return {
        "step": step.number,
        "t": t_s,
        "running": step.running,
        "waiting": step.waiting,
        "scheduled_tokens": step.scheduled_tokens,
        "blocks_used": step.blocks_used,
        "admitted": [[sequence.id, hit_tokens] for sequence, hit_tokens in step.admitted],
        "preempted": [sequence.id for sequence in step.preempted],
        "finished": [sequence.id for sequence in finished],
    }


@contextmanager
def step_log(path: Path) -> Iterator[Callable[[Step, Iterable[Sequence], float], None]]:
    """Gives a function that writes a step, as `Engine` calls it. The file is put at `path` at the end, whole.

    Until then, and after an error or a kill, what was written stands in `path` + ".partial". Raises ConfigError if
    the file cannot be made.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        file = partial.open("w", encoding="utf-8", buffering=1)  # each line is out when it is written
    except OSError as error:
        raise ConfigError(f"step log {path}: {error.strerror}; accepted: a file in a writable folder") from None

    def write(step: Step, finished: Iterable[Sequence], t_s: float) -> None:
        file.write(json.dumps(step_row(step, finished, t_s), ensure_ascii=False) + "\n")

    with file:
        yield write
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
