"""What a sweep came to: what `--json` prints, what the table, the sentences and the page are made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pagesim.sim.sweep.summary import Line
from pagesim.sim.sweep.sweep import Counts

SCHEMA = "pagesim.sweep/1"


@dataclass(frozen=True, slots=True)
class SweepResult:
    """`varied`: the options that vary, by column. `lines`: one for each variant and allocator."""

    dataset: Path
    rows: int
    variants: int
    first_seed: int
    num_seeds: int
    counts: Counts
    varied: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def nonsense(self) -> int:
        """Variants that make no sense, and were not run."""
        return sum(line.allocator is None for line in self.lines)

    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "schema": SCHEMA,
            "dataset": str(self.dataset),
            "rows": self.rows,
            "variants": self.variants,
            "seeds": {"first": self.first_seed, "count": self.num_seeds},
            "points": asdict(self.counts),
            "varied": list(self.varied),
            "lines": [line.as_json() for line in self.lines],
        }
