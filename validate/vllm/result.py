"""What came of driving vLLM's scheduler beside the simulator: what `--json` prints, and the same in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pagesim.sim.jsontext import rounded
from pagesim.validate.replay import words
from pagesim.validate.replay.experiment import Experiment
from pagesim.validate.replay.logical import Logical
from pagesim.validate.vllm.scheduling import SIDE

SCHEMA = "pagesim.validate-vllm/1"


@dataclass(frozen=True, slots=True, eq=False)
class VllmResult:
    """`version`: vLLM's. `source`: where the requests come from, in words. `logical`: the two schedules."""

    version: str
    source: str
    step_time: str
    experiment: Experiment
    logical: Logical

    @property
    def agrees(self) -> bool:
        """Whether every step does, and every sum."""
        return self.logical.agrees

    def document(self) -> dict[str, Any]:
        """Plain values by name."""
        whole: dict[str, Any] = rounded(
            {
                "schema": SCHEMA,
                "agrees": self.agrees,
                "vllm": self.version,
                "source": self.source,
                "requests": len(self.experiment.samples),
                "trace_sha256": self.experiment.trace.sha256(),
                "step_time": self.step_time,
                "rules": self.experiment.config.as_json(),
                "logical": self.logical.as_json(),
            }
        )
        return whole

    def table(self) -> list[list[str]]:
        """What was compared, the simulator's, vLLM's, and whether they agree; the first line is the head."""
        return [["", "simulator", SIDE, "agrees"], *words.schedule(self.logical, f"scheduler of vLLM {self.version}")]

    def lines(self) -> list[str]:
        """What stands under the table: what is wrong, the first divergence, the verdict, what was left out."""
        found, names = self.logical.divergence, self.experiment.names
        parted = [] if found is None else words.parting(found, names)
        return [*self.logical.findings, *parted, self._verdict(), *self._left_out()]

    def _verdict(self) -> str:
        steps = f"{self.logical.steps_that_agree:,}"
        if self.agrees:
            return f"They agree in every one of {steps} steps over {len(self.experiment.samples):,} requests."
        return f"They differ: {steps} steps from the start agree."

    def _left_out(self) -> list[str]:
        said = []
        if self.logical.not_offered:
            said.append(
                f"{self.logical.not_offered:,} requests are longer than --max-model-len and were given to neither side."
            )
        if self.logical.other is not None and self.logical.other.rejected:
            said.append(
                f"{len(self.logical.other.rejected):,} requests could never fit: the simulator turns them away, and "
                "vLLM, which would let them wait for ever, was not given them."
            )
        return said
