"""The figures of a run in which requests wait, by name, in the order of the report."""

from __future__ import annotations

from functools import partial

from pagesim.sim.figures import account_over_time
from pagesim.sim.picture import Picture
from pagesim.sim.serving import plots
from pagesim.sim.serving.result import ServingResult

CAPTIONS = {  # name of a latency: (name, title and caption of its figure)
    "ttft_s": (
        "ttft",
        "The wait for the first token",
        "The share of requests whose first token came within that time of their arrival, queueing included.",
    ),
    "tpot_s": (
        "tpot",
        "The pace of the answers",
        "The share of requests whose further tokens came that fast in the mean. Who runs more at once runs each of "
        "them slower.",
    ),
    "e2e_s": (
        "e2e",
        "The whole answer",
        "The share of requests that had their last token within that time of their arrival, queueing included.",
    ),
}


def serving_pictures(result: ServingResult) -> list[Picture]:
    """All of them; a latency is lacking where no request has it, preemptions where there are none."""
    many = ", the mean of all replications" if len(result.trace.replications) > 1 else ""
    preempted = any(a.preemptions for a in result.allocators.values())
    return [
        Picture(
            "account",
            "Where the pool's memory was",
            f"Every slot of the pool over time{many}: used, reserved, internal and free add up. What was free and in "
            "total enough for the head of the queue, which could not be placed, has a colour of its own: external "
            "waste.",
            partial(account_over_time, result),
        ),
        Picture(
            "queue",
            "Who runs, and who waits",
            "Requests in the batch, and in the queue. Where the upper curve is flat and the lower one climbs, a limit "
            "is reached: of memory, of sequences, or of tokens a step.",
            partial(plots.queue_over_time, result),
        ),
        *(_latency(result, which) for which in CAPTIONS),
        Picture(
            "preemptions",
            "Preemptions",
            "In each interval of the time (the axis tells how long one is), requests that were put back because the "
            "pool ran dry, and computed again. An allocator that takes all room beforehand never does that.",
            partial(plots.preemptions_over_time, result),
            None if preempted else "nobody was preempted",
        ),
    ]


def _latency(result: ServingResult, which: str) -> Picture:
    name, title, caption = CAPTIONS[which]
    known = any(a.percentiles[which] for a in result.allocators.values())
    lacking = None if known else f"no request has a {plots.LATENCIES[which]}"
    return Picture(name, title, caption, partial(plots.latency, result, which), lacking)
