"""The physical half of a replay: the same trace through the engine with its model, and the pool read as it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pagesim.engine.step import Step
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.timeline import Timeline
from pagesim.validate.calibrate.threads import threads
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.logical import Logical, OnProgress, compare
from pagesim.validate.replay.machine import with_model
from pagesim.validate.replay.pool_account import Account, PoolReader, PoolSample
from pagesim.validate.replay.simulated import Simulated

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine

MOST_SAMPLES = 200


@dataclass(frozen=True, slots=True, eq=False)
class Physical:
    """`logical`: the engine's own steps beside the simulated ones. `samples`: accounts of the pool, in order."""

    model: str
    device: str
    num_blocks: int
    logical: Logical
    samples: tuple[PoolSample, ...]

    @property
    def agrees(self) -> bool:
        """Whether steps and accounts do."""
        return self.logical.agrees and all(sample.agrees for sample in self.samples)

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "agrees": self.agrees,
            "model": self.model,
            "device": self.device,
            "num_blocks": self.num_blocks,
            "logical": self.logical.as_json(),
            "samples": [sample.as_json() for sample in self.samples],
        }


def replay_physically(
    experiment: Experiment, simulated: Simulated, engine: Engine, on_progress: OnProgress = lambda requests: None
) -> Physical:
    """Compute every step with `engine`, which was made with `audit` and has served nothing yet.

    The pool is read in MOST_SAMPLES steps, evenly spaced. Raises EngineError if memory runs out.
    """
    reader, expected = PoolReader(engine), _Expected(simulated.log)
    chosen = set(np.linspace(0, simulated.log.num_steps - 1, MOST_SAMPLES).astype(int).tolist())
    samples: list[PoolSample] = []

    def read(step: Step) -> None:
        if step.number in chosen:
            account, torn, misplaced = reader.account(step)
            start_s = float(expected.line.start_s[step.number])
            samples.append(PoolSample(step.number, start_s, expected.account(step.number), account, torn, misplaced))

    machine = with_model(experiment, engine)
    with threads(engine):
        logical = compare(experiment, simulated, machine, reader.wipe, read, on_progress)
    config = engine.config
    return Physical(config.model, config.device, engine.account.num_blocks, logical, tuple(samples))


class _Expected:
    """The simulator's account of the pool, step by step."""

    def __init__(self, log: ServingLog) -> None:
        self.line = Timeline(log)
        self._usable = log.config.usable_tokens
        self._used, self._held = self.line.used_tokens, self.line.held_tokens
        self._internal = self.line.internal_tokens

    def account(self, step: int) -> Account:
        """Of one step."""
        used, held, internal = int(self._used[step]), int(self._held[step]), int(self._internal[step])
        return Account(used, held - used - internal, internal, self._usable - held)
