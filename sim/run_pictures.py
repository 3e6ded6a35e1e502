"""The figures of a run in which nothing waits, by name, in the order of the report."""

from __future__ import annotations

from functools import partial

from pagesim.sim import figures
from pagesim.sim.picture import Picture
from pagesim.sim.result import RunResult


def run_pictures(result: RunResult) -> list[Picture]:
    """All of them; those about refusals are lacking where nothing was refused."""
    many = len(result.trace.replications) > 1
    none_refused = None if any(a.refused for a in result.allocators.values()) else "nothing was refused"
    return [
        Picture(
            "account",
            "Where the pool's memory was",
            "Every slot of the pool over time" + (", the mean of all replications" if many else "") + ": used, "
            "reserved, internal and free add up. What lay free when requests were refused, and was enough in total, "
            "has a colour of its own: external waste.",
            partial(figures.account_over_time, result),
        ),
        Picture(
            "refusals",
            "Full, or merely awkward?",
            "The share of refusals that happened at each occupancy or below. A curve that stays at zero and then "
            "jumps at the right edge refuses when the memory is gone; one that climbs before it refuses while "
            "memory lies free in pieces.",
            partial(figures.occupancy_at_refusal, result),
            none_refused,
        ),
        Picture(
            "refused-by-length",
            "Who is refused",
            "The share of requests of each length that were refused. Point at a mark to see of how many: few say "
            "little.",
            partial(figures.refused_by_length, result),
            none_refused,
        ),
        Picture(
            "capacity",
            "What the pool holds",
            "Sequences of one and the same length that the empty pool has room for.",
            partial(figures.capacity_by_length, result),
        ),
    ]
