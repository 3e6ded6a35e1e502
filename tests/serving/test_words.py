"""What is said of a run in which requests wait: durations, and the first sentence."""

from __future__ import annotations

import pytest

from pagesim.sim.config import PoolConfig, QueueConfig, RunConfig, WorkloadConfig
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.serving.run_table import seconds
from pagesim.sim.serving.summary import headline


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3.00 s"), (12.34, "12.3 s"), (0.014, "14.0 ms"), (0.123, "123 ms"), (0.9994, "999 ms"),
        (0.9996, "1.00 s"), (99.94, "99.9 s"), (99.96, "100 s"), (1234.6, "1,235 s"), (0.0, "0.00 ms"),
    ],
)  # fmt: skip
def test_durations_have_three_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert seconds(value) == text


def test_it_is_requests_that_are_put_back_and_not_the_half_that_waited() -> None:
    config = RunConfig(
        load="1.5", num_runs=1, allocators=("paged",), on_full="queue", pool=PoolConfig(tokens=60 * 16),
        max_model_len=256, workload=WorkloadConfig(num_requests=60),
        queue=QueueConfig(rules=ServingConfig(num_blocks=60, max_model_len=256)),
    )  # fmt: skip
    result = ServingResult.of(config, serve_all(config))
    times = result.allocators["paged"].preemptions
    assert times > 1
    assert headline(result).endswith(f", and requests were put back {times} times.")
