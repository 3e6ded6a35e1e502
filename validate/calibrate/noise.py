"""How noisy a machine was while it was timed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Noise:
    """How unlike the repeats were. `repeats_s`: seconds of all loads together, repeat by repeat.

    `steps_spread`: the median, over the steps, of (longest - shortest) / median over the repeats; None of a single
    repeat, which is like itself whatever the machine did. `cpu_share`:
    processor time of this process over the wall clock meanwhile: under the number of busy threads, something else ran.
    """

    repeats_s: tuple[float, ...]
    steps_spread: float | None
    cpu_share: float

    @property
    def words(self) -> str:
        """One sentence."""
        low, high = min(self.repeats_s), max(self.repeats_s)
        if self.steps_spread is None:
            return f"1 repeat, of {low:.3g} s, which says nothing of noise; {self.cpu_share:.2f} processors busy."
        return (
            f"{len(self.repeats_s)} repeats, of {low:.3g} to {high:.3g} s; a step's longest and shortest are "
            f"{self.steps_spread:.0%} of its median apart, in the median; {self.cpu_share:.2f} processors busy."
        )
