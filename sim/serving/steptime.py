"""How long one step takes: a constant, or a form linear in what the step computes.

A model sees four sums over the step, not the sequences. Left out: anything that depends on how the work is spread over
sequences, such as padding, and what happens on the host between steps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Protocol

from pagesim.sim.errors import UsageError

ACCEPTED = (
    "constant:SECONDS, linear:BASE:PER_TOKEN:PER_PAIR:PER_SEQUENCE[:PER_CONTEXT[:PREFILL]] in seconds, "
    "roofline:DEVICE:MODEL[:TIMES_SLOWER], "
    "or a profile"
)


class StepTime(Protocol):
    """A step-time model. It must be linear in `decode_contexts`, so that k quiet steps in a row have a closed form."""

    def seconds(self, tokens: int, prefill_pairs: int, decode_contexts: int, sequences: int) -> float:
        """Duration of one step, > 0.

        `tokens`: all that are computed. `prefill_pairs`: pairs of query and key over the chunks of prompts (see
        `pairs`). `decode_contexts`: keys that the sequences which compute one token more of their answer attend to,
        that token's own among them. `sequences`: how many compute anything.
        """

    def growth_s(self, sequences: int) -> float:
        """How much longer each step is than the one before, while `sequences` decode and nothing else happens."""


def pairs(behind: int, tokens: int) -> int:
    """Query-key pairs of a chunk of `tokens` behind `behind` tokens: each attends to all before it, and to itself."""
    return tokens * behind + tokens * (tokens + 1) // 2


@dataclass(frozen=True, slots=True)
class ConstantStep:
    """Every step takes `step_s`, whatever it computes."""

    step_s: float

    def __post_init__(self) -> None:
        if not (self.step_s > 0 and math.isfinite(self.step_s)):
            raise UsageError(f"step time {self.step_s:g} s; accepted: more than 0")

    def seconds(self, tokens: int, prefill_pairs: int, decode_contexts: int, sequences: int) -> float:
        """Always the same."""
        return self.step_s

    def growth_s(self, sequences: int) -> float:
        """None."""
        return 0.0


class Knot(NamedTuple):
    """`seconds`: what so many tokens of a step cost together."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LinearStep:
    """base + per_token*tokens + per_pair*(prefill pairs + 2*decode contexts) + per_sequence*sequences, all in seconds.

    The 2: the attention kernel that this form was found on works with 14 rows of 16 in prefill, and 7 in decode. Other
    machines read the keys of a decode at a price that has nothing to do with a pair's; where `per_context_s` is given,
    it takes the place of 2*per_pair. `prefill_s`: what a step takes beside, however much of prompts it computes.

    `curve`, if there is one, takes the place of per_token*tokens between the first token and the last of its knots:
    straight from (1, per_token) to the first and from knot to knot. The first token and those after the last knot cost
    per_token each. A matrix product of few rows takes other times than its share of one of many.
    """

    base_s: float
    per_token_s: float
    per_pair_s: float
    per_sequence_s: float
    per_context_s: float | None = None
    prefill_s: float | None = None
    _: KW_ONLY
    curve: tuple[Knot, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("per_token_s", "per_pair_s", "per_sequence_s", "per_context_s", "prefill_s"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise UsageError(f"step time {name} {value:g}; accepted: 0 or more")
        if not (self.base_s > 0 and math.isfinite(self.base_s)):
            raise UsageError(f"step time base_s {self.base_s:g}; accepted: more than 0")
        before = Knot(1, self.per_token_s)
        for knot in self.curve or ():
            if not (knot.tokens > before.tokens and before.seconds <= knot.seconds < math.inf):
                raise UsageError(
                    f"step time curve has {tuple(knot)} after {tuple(before)}; accepted: tokens that rise, and seconds "
                    "that do not fall"
                )
            before = knot

    def seconds(self, tokens: int, prefill_pairs: int, decode_contexts: int, sequences: int) -> float:
        """The form."""
        per_context_s = self.per_context_s
        if per_context_s is None:
            attention_s = self.per_pair_s * (prefill_pairs + 2 * decode_contexts)
        else:
            attention_s = self.per_pair_s * prefill_pairs + per_context_s * decode_contexts
        if prefill_pairs and self.prefill_s:
            attention_s += self.prefill_s
        tokens_s = self._on_curve(self.curve, tokens) if self.curve else self.per_token_s * tokens
        return self.base_s + tokens_s + attention_s + self.per_sequence_s * sequences

    def growth_s(self, sequences: int) -> float:
        """Every context grows by one."""
        return (2 * self.per_pair_s if self.per_context_s is None else self.per_context_s) * sequences

    def _on_curve(self, curve: tuple[Knot, ...], tokens: int) -> float:
        last = curve[-1]
        if tokens < 2:
            return self.per_token_s * tokens
        if tokens >= last.tokens:
            return last.seconds + self.per_token_s * (tokens - last.tokens)
        place = bisect_left(curve, (tokens, 0.0))
        (low, low_s), (high, high_s) = curve[place - 1] if place else (1, self.per_token_s), curve[place]
        return low_s + (high_s - low_s) * (tokens - low) / (high - low)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_step_time(text: str) -> StepTime:
    """`constant:S`, `linear:BASE:PER_TOKEN:PER_PAIR:PER_SEQUENCE[:PER_CONTEXT[:PREFILL]]`, seconds each, or
    `roofline:DEVICE:MODEL[:TIMES]`; or the name of a profile that is shipped, or the file of one.

    Raises UsageError, or GeometryError for a device or model that is unknown.
    """
    kind, _, rest = text.partition(":")
    if kind not in ("constant", "linear", "roofline"):
        from pagesim.sim.experiments.profile import find_profile

        return find_profile(text).coefficients
    if kind == "roofline" and ":" in rest:
        from pagesim.sim.catalog.devices import find_device
        from pagesim.sim.catalog.models import find_model
        from pagesim.sim.serving.roofline import RooflineStep

        device, _, model = rest.partition(":")
        model, _, times = model.rpartition(":") if _is_number(model.rpartition(":")[2]) else (model, "", "1")
        return RooflineStep.of(find_device(device), find_model(model)).slower(float(times))
    try:
        values = [float(part) for part in rest.split(":")]
    except ValueError:
        values = []
    if kind == "constant" and len(values) == 1:
        return ConstantStep(values[0])
    if kind == "linear" and len(values) in (4, 5, 6):
        return LinearStep(*values)
    raise UsageError(f"step time '{text}'; accepted: {ACCEPTED}")
