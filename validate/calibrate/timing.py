"""An engine as a source of batch times: each load of a design goes through the engine's own loop, several times over.

A time is of one round of the loop: letting requests in, scheduling, the model, sampling, handing out tokens. Of each
step the median over the repeats counts. A median knows nothing of what happens now and then, such as a collection of
garbage or an interrupt, and a whole load holds some of it: so the medians of a load are scaled to add up to the median
of its repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from pagesim.engine.engine import Engine
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.step import Step
from pagesim.sim.trace import Floats
from pagesim.validate.calibrate.design import Load
from pagesim.validate.calibrate.noise import Noise
from pagesim.validate.calibrate.shape import BatchTime, Shape
from pagesim.validate.load import warm_up
from pagesim.validate.load_tokens import private_tokens


class Timer:
    """Times loads on one engine, which serves nothing else. Its `on_step` must be this object's `note`.

    `clock`: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: Step | None = None
        self._owners = 0

    def note(self, step: Step, finished: object, t_s: float) -> None:
        """What the engine calls with each step."""
        self._last = step

    def measure(
        self,
        engine: Engine,
        loads: Sequence[Load],
        repeats: int,
        advance: Callable[[int], None] = lambda loads: None,
        keep: Callable[[list[BatchTime]], object] = lambda rows: None,
    ) -> tuple[list[BatchTime], Noise]:
        """Rows of every step of every load. The repeats of a load lie as far apart as they can.

        `keep` is given the rows after each repeat, as they are by then.
        """
        warm_up(engine)
        for load in loads[:: max(1, len(loads) - 1)]:
            self.serve(engine, load)
        shapes: dict[str, list[Shape]] = {}
        times: dict[str, list[list[float]]] = {load.name: [] for load in loads}
        rows: list[BatchTime] = []
        begin_s, begin_cpu_s = time.monotonic(), time.process_time()
        for _ in range(repeats):
            for load in loads:
                steps = self.serve(engine, load)
                made = [shape for shape, _ in steps]
                assert shapes.setdefault(load.name, made) == made, f"{load.name}: other batches than the time before"
                times[load.name].append([seconds for _, seconds in steps])
                advance(1)
            rows = [
                BatchTime(shape, seconds, load.name, load.held_out)
                for load in loads
                for shape, seconds in zip(shapes[load.name], typical(np.array(times[load.name])).tolist(), strict=True)
            ]
            keep(rows)
        cpu_share = (time.process_time() - begin_cpu_s) / (time.monotonic() - begin_s)
        return rows, _noise([np.array(each) for each in times.values()], cpu_share)

    def serve(self, engine: Engine, load: Load) -> list[tuple[Shape, float]]:
        """Each step of a load and the seconds of its round of the loop."""
        prompts = [self._prompt(engine, request.prompt_tokens) for request in load.requests]
        rounds: list[tuple[Step, float]] = []
        coming, number = 0, 0
        begin_s = self._clock()
        while coming < len(prompts) or engine.has_work:
            if not engine.has_work:
                number = max(number, load.requests[coming].step)
            while coming < len(prompts) and load.requests[coming].step <= number:
                output = load.requests[coming].output_tokens
                engine.add_request(prompts[coming], SamplingParams(temperature=0, max_tokens=output, ignore_eos=True))
                coming += 1
            engine.step()
            assert self._last is not None, "the engine's on_step is not this timer's note"
            if engine.config.device != "cpu":  # a step that samples nothing does not wait for the card
                torch.cuda.synchronize(engine.config.device)
            end_s = self._clock()
            rounds.append((self._last, end_s - begin_s))
            begin_s, number = end_s, number + 1
        return [(Shape.of(step), seconds) for step, seconds in rounds]

    def _prompt(self, engine: Engine, num_tokens: int) -> list[int]:
        """Nobody had it before, so that no prefix cache knows it."""
        self._owners += 1
        return private_tokens(self._owners, num_tokens, engine.model.config.vocab_size, seed=-2)


def typical(times_s: Floats) -> Floats:
    """[repeats, steps] to [steps]: medians, scaled to add up to the median of the repeats' sums."""
    medians: Floats = np.median(times_s, axis=0)
    scaled: Floats = medians * (np.median(times_s.sum(axis=1)) / medians.sum())
    return scaled


def _noise(by_load: Sequence[Floats], cpu_share: float) -> Noise:
    each = np.concatenate([(times_s.max(0) - times_s.min(0)) / np.median(times_s, axis=0) for times_s in by_load])
    repeats_s = np.sum([times_s.sum(axis=1) for times_s in by_load], axis=0)
    spread = float(np.median(each)) if len(repeats_s) > 1 else None
    return Noise(tuple(repeats_s.tolist()), spread, cpu_share)
