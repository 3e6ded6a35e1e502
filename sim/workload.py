"""A workload: lengths, arrivals and residence, and the load that sets the rate. It draws traces.

Presets: the note gives results but not its loads. These two reproduce them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pagesim.sim.arrivals import Arrivals
from pagesim.sim.config import MAX_REQUESTS, PER_SECOND
from pagesim.sim.errors import UsageError
from pagesim.sim.length_pairs import LengthPairs, Moments
from pagesim.sim.residence import Residence
from pagesim.sim.trace import Trace

HORIZON_RESIDENCES = 17  # how long a drawn trace is, in mean residences
RATE_DIGITS = 12  # significant
MAX_RATE = 1e12  # requests/s; the least is its inverse
ARRIVAL_DIGITS = 9  # arrivals are whole nanoseconds, so that the last bit of a logarithm changes no trace


@dataclass(frozen=True, slots=True)
class Load:
    """Offered load: `erlangs` of what `per` counts.

    "pool": arrival rate * E[length * residence] / pool tokens, the share of the pool that the requests would fill if
    none were refused and nothing wasted. "slot": arrival rate * E[residence] / reservations that the pool holds.
    Requests that can never be served offer nothing. "second": that many requests arrive in a second, whatever they
    offer.
    """

    erlangs: float
    per: Literal["pool", "slot", "second"]

    def rate_per_s(self, residence: Residence, m: Moments, pool_tokens: int, max_model_len: int) -> float:
        """The arrival rate that offers this load. Raises UsageError as `rounded_rate` does."""
        if self.per == "second":
            return self.rate
        if self.per == "pool":
            room, each = pool_tokens, m.share * residence.mean_token_s(m)
        else:
            room, each = pool_tokens // max_model_len, m.share * residence.mean_s(m)
        return rounded_rate(self.erlangs * room / each if each > 0 else math.inf)

    @property
    def rate(self) -> float:
        """Requests a second, of a load that is given so. Raises UsageError as `rounded_rate` does."""
        assert self.per == "second", self
        return rounded_rate(self.erlangs)


def rounded_rate(rate_per_s: float) -> float:
    """To RATE_DIGITS: the last bits are a matter of the processor. Raises UsageError past MAX_RATE either way."""
    if not 1 / MAX_RATE <= rate_per_s <= MAX_RATE:
        raise UsageError(f"this load is {rate_per_s:g} requests/s; accepted: {1 / MAX_RATE:g} to {MAX_RATE:g}")
    return float(f"{rate_per_s:.{RATE_DIGITS}g}")


PRESETS = {"moderate": Load(1.18, "slot"), "high": Load(1.40, "pool")}


def parse_load(text: str) -> Load:
    """A preset's name, or a number: that many times the pool in tokens; or `R/s`, a plain rate.

    Raises UsageError on anything else.
    """
    if text in PRESETS:
        return PRESETS[text]
    try:
        erlangs = float(text.removesuffix(PER_SECOND))
    except ValueError:
        erlangs = float("nan")
    if not 0 < erlangs < float("inf"):
        raise UsageError(
            f"load '{text}'; accepted: {', '.join(PRESETS)}, a number more than 0 (1 fills the pool), a rate like 4/s"
        )
    return Load(erlangs, "second" if text.endswith(PER_SECOND) else "pool")


@dataclass(frozen=True, slots=True)
class Workload:
    """Draws traces of `num_requests` at `rate_per_s`."""

    lengths: LengthPairs
    arrivals: Arrivals
    rate_per_s: float
    num_requests: int

    def draw(self, seed: np.random.SeedSequence) -> Trace:
        """One trace; a random stream of its own for arrivals, prompts and outputs. The same seed, the same trace."""
        keys = ((*seed.spawn_key, stream) for stream in range(3))  # seed.spawn would count on: other streams next time
        streams = (np.random.SeedSequence(seed.entropy, spawn_key=key) for key in keys)
        arrivals, prompts, outputs = map(np.random.default_rng, streams)
        prompt, output = self.lengths.draw(prompts, outputs, self.num_requests)
        arrival_s = self.arrivals.times_s(arrivals, self.num_requests, self.rate_per_s)
        return Trace(np.round(arrival_s, ARRIVAL_DIGITS), prompt, output)


def default_requests(rate_per_s: float, mean_residence_s: float) -> int:
    """Requests in HORIZON_RESIDENCES mean residences. Raises UsageError if they are past counting."""
    count = HORIZON_RESIDENCES * rate_per_s * mean_residence_s
    if not count <= MAX_REQUESTS:
        raise UsageError(f"so large a load or pool asks for {count:.3g} requests; accepted: up to {MAX_REQUESTS}")
    return max(1, round(count))


def trace_moments(trace: Trace, limit: int) -> Moments:
    """Moments of a trace's own lengths, of the requests of at most `limit` tokens. Raises UsageError if it has none."""
    return Moments.of(trace.prompt_tokens, trace.output_tokens, np.full(len(trace), 1 / len(trace)), limit)


def scaled_to_rate(trace: Trace, rate_per_s: float) -> Trace:
    """The same requests, faster or slower, so that their mean rate is `rate_per_s`.

    Raises UsageError if all of them arrive at once.
    """
    if trace.span_s == 0:
        raise UsageError("a trace whose requests all arrive at once has no rate to scale; accepted: --load left out")
    factor = (len(trace) / trace.span_s) / rate_per_s
    return trace.with_arrivals(np.round(trace.arrival_s * factor, ARRIVAL_DIGITS))
