"""The figures on the report of a run in which requests wait."""

from __future__ import annotations

from pagesim.sim.report import Panel
from pagesim.sim.serving import plots
from pagesim.sim.serving.result import ServingResult


def serving_panels(result: ServingResult) -> list[Panel]:
    """All of them; preemptions only where there are any."""
    many = ", the mean of all replications" if len(result.trace.replications) > 1 else ""
    panels = [
        Panel(
            "Where the pool's memory was",
            f"Every slot of the pool over time{many}: used, reserved, internal and free add up. What was free and in "
            "total enough for the head of the queue, which could not be placed, has a colour of its own: external "
            "waste.",
            plots.account_over_time(result),
        ),
        Panel(
            "Who runs, and who waits",
            "Requests in the batch, and in the queue. Where the upper curve is flat and the lower one climbs, a limit "
            "is reached: of memory, of sequences, or of tokens a step.",
            plots.queue_over_time(result),
        ),
        Panel(
            "The wait for the first token",
            "The share of requests whose first token came within that time of their arrival, queueing included.",
            plots.latency(result, "ttft_s"),
        ),
        Panel(
            "The pace of the answers",
            "The share of requests whose further tokens came that fast in the mean. Who runs more at once runs each of "
            "them slower.",
            plots.latency(result, "tpot_s"),
        ),
        Panel("The whole", "From arrival to the last token.", plots.latency(result, "e2e_s")),
    ]
    if any(a.preemptions for a in result.allocators.values()):
        panels.append(
            Panel(
                "Preemptions",
                "In each interval of the time (the axis tells how long one is), requests that were put back because "
                "the pool ran dry, and computed again. An allocator that takes all room beforehand never does that.",
                plots.preemptions_over_time(result),
            )
        )
    return panels
