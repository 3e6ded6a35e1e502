"""What a run adds up to: the sums that a recording ends with, and that a server exports."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pagesim.engine.step import Step


@dataclass(slots=True)
class Totals:
    """Sums since the scheduler was made. The names and meanings are those of the recordings' `totals`.

    `recomputed_tokens`: computed although they had been before, because their sequence was preempted. The prefix
    figures count tokens, asked for and found, at first admissions and at returns after a preemption.
    """

    steps: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    scheduled_tokens: int = 0
    sampled_tokens: int = 0
    peak_blocks_used: int = 0
    peak_running: int = 0
    prefix_queries_first: int = 0
    prefix_hits_first: int = 0
    prefix_queries_return: int = 0
    prefix_hits_return: int = 0

    def add_look_up(self, asked_tokens: int, found_tokens: int, *, is_return: bool) -> None:
        """A look-up in the prefix cache that led to an admission."""
        if is_return:
            self.prefix_queries_return += asked_tokens
            self.prefix_hits_return += found_tokens
        else:
            self.prefix_queries_first += asked_tokens
            self.prefix_hits_first += found_tokens

    def add_step(self, step: Step) -> None:
        """A step that was scheduled."""
        self.steps += 1
        self.preemptions += len(step.preempted)
        self.scheduled_tokens += step.scheduled_tokens
        self.peak_blocks_used = max(self.peak_blocks_used, step.blocks_used)
        self.peak_running = max(self.peak_running, step.running)
        if self.preemptions:
            for sequence, start, num_tokens, _ in step.chunks:
                self.recomputed_tokens += max(0, min(start + num_tokens, sequence.most_computed) - start)

    def as_dict(self) -> dict[str, int]:
        """Name to figure."""
        return asdict(self)
