"""The loads of a calibration: within reach, held out in part, and as uneven as a server's."""

from __future__ import annotations

import numpy as np
import pytest

from pagesim.validate.calibrate.design import Reach, loads


@pytest.mark.parametrize(
    "reach", [Reach(64, 1024, 8192), Reach(1, 64, 128), Reach(5, 300, 900), Reach(256, 4096, 10**6)]
)
def test_a_design_stays_within_reach_and_holds_loads_out(reach: Reach) -> None:
    made = loads(reach)
    assert {load.held_out for load in made} == {True, False}
    assert len({load.name for load in made}) == len(made) and made == loads(reach)
    for load in made:
        assert [request.step for request in load.requests] == sorted(request.step for request in load.requests)
        for request in load.requests:
            assert request.prompt_tokens >= 1 and request.output_tokens >= 2
            assert request.prompt_tokens + request.output_tokens <= reach.sequence_tokens


@pytest.mark.parametrize("reach", [Reach(64, 1024, 8192), Reach(256, 4096, 10**6), Reach(64, 256, 1024)])
def test_loads_fit_the_pool_in_the_mean_and_are_as_uneven_as_a_servers(reach: Reach) -> None:
    for load in loads(reach):
        prompts = np.array([request.prompt_tokens for request in load.requests])
        answers = np.array([request.output_tokens for request in load.requests])
        sequences = int(load.name.split()[0])
        assert sequences * (prompts.mean() + answers.mean()) < 1.1 * reach.pool_tokens, load.name
        assert len(load.requests) >= 12
        if len(prompts) > 60 and prompts.mean() > 8:
            assert 0.5 < prompts.std() / prompts.mean() < 1.2, load.name


def test_lengths_are_what_the_loads_names_say_in_the_mean() -> None:
    made = loads(Reach(64, 4096, 10**6))
    said = sum(float(load.name.split("prompts of ")[1].split(",")[0]) * len(load.requests) for load in made)
    drawn = sum(request.prompt_tokens for load in made for request in load.requests)
    assert drawn == pytest.approx(said, rel=0.1)


def test_one_comes_for_each_that_goes() -> None:
    """With a token a step for each, as many are there at once as the name says, until the last came."""
    for load in loads(Reach(64, 1024, 10**6)):
        there = [
            sum(other.step <= step < other.step + other.output_tokens for other in load.requests)
            for step in range(load.requests[-1].step)
        ]
        assert 0.5 < np.mean(there) / int(load.name.split()[0]) < 1.5, load.name


def test_no_load_has_more_sequences_than_the_pool_has_room_for() -> None:
    names = [load.name for load in loads(Reach(64, 256, 400))]
    assert {int(name.split()[0]) for name in names} == {1, 2, 4, 8, 16}
    assert len(set(names)) == len(names) < 5 * 4  # cut to the same lengths, a load is there once
    assert loads(Reach(64, 64, 16)) == []
