from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

from hypothesis import given, settings
from hypothesis import strategies as st

from pagesim.engine.errors import RequestError
from pagesim.engine.sampling import SamplingParams, sample_seed, uniform
from pagesim.kernels.sampling import Draw, sample

RULES = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.none() | st.integers(1, 300),
    top_p=st.floats(0.05, 0.999) | st.just(1.0),
)


def logits_of(rows: int, vocab: int, seed: int) -> torch.Tensor:
    return 3 * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


def slow_sample(logits: torch.Tensor, draw: Draw) -> set[int]:
    """What one row may give, one token at a time in Python: both neighbours where rounding could decide."""
    rules = draw
    values = logits.double().tolist()
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))
    if rules.temperature == 0:
        return {order[0]}
    weight = {token: math.exp((values[token] - values[order[0]]) / rules.temperature) for token in order}
    kept = order[: rules.top_k]
    total = sum(weight[token] for token in kept)
    reached, likeliest = 0.0, []
    for token in kept:
        if reached >= rules.top_p * total * (1 + 1e-12):  # what only rounding reaches may stay
            break
        likeliest.append(token)
        reached += weight[token]
    if rules.top_k is None and rules.top_p == 1:
        likeliest = list(range(len(values)))
    share = draw.uniform * sum(weight[token] for token in likeliest)
    reached, found = 0.0, set()
    for token in likeliest:
        if reached - 1e-6 <= share <= reached + weight[token] + 1e-6:
            found.add(token)
        reached += weight[token]
    return found


@given(
    rules=st.lists(RULES, min_size=1, max_size=5),
    vocab=st.sampled_from([1, 5, 63, 64, 65, 200]),
    numbers=st.lists(st.floats(0, 1, exclude_max=True), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_a_batch_gives_what_each_row_gives_by_hand(rules, vocab, numbers, seed) -> None:
    logits = logits_of(len(rules), vocab, seed)
    draws = [Draw(row, each.temperature, each.top_k, each.top_p, numbers[row]) for row, each in enumerate(rules)]
    tokens = sample(logits, [draw for draw in draws if draw.temperature > 0])
    for token, draw in zip(tokens, draws, strict=True):
        assert token in slow_sample(logits[draw.row], draw)
        alone = [replace(draw, row=0)] if draw.temperature > 0 else []
        assert sample(logits[draw.row : draw.row + 1], alone) == [token], "alone as in the batch"


def test_frequencies_are_the_probabilities() -> None:
    """20,000 draws, by seeds that follow one another: chi-square with 9 degrees of freedom, its 1 in 10^6 point."""
    logits, count = logits_of(1, 10, 4) / 3, 20_000
    draws = [Draw(seed, 1.0, None, 1.0, uniform(sample_seed(seed, 0), 7)) for seed in range(count)]
    found = Counter(sample(logits.expand(count, -1), draws))
    expected = (logits[0].double().softmax(-1) * count).tolist()
    assert sum((found[token] - each) ** 2 / each for token, each in enumerate(expected)) < 45.1


def test_neighbouring_positions_and_samples_are_unrelated() -> None:
    for numbers in (
        [uniform(1, position) for position in range(5000)],
        [uniform(sample_seed(1, index), 0) for index in range(5000)],
    ):
        assert all(0 <= number < 1 for number in numbers)
        assert abs(sum(numbers) / 5000 - 0.5) < 0.02
        mean = sum(a * b for a, b in pairwise(numbers)) / 4999
        assert abs(mean - 0.25) < 0.02


def test_greedy_takes_the_first_of_equals() -> None:
    for vocab in (130, 64 * 70, 64 * 70 + 1, 64 * 70 + 63):
        logits = torch.zeros(3, vocab)
        logits[1, [70, 129]] = 1.0
        logits[2, -1] = 1.0
        assert sample(logits, []) == [0, 70, vocab - 1]
    large = torch.randn(20, 5000, generator=torch.Generator().manual_seed(1)).bfloat16()
    assert sample(large, []) == large.argmax(-1).tolist()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"n": 0}, "n is 0"),
    ],
)
def test_values_that_make_no_sense(values, words) -> None:
    with pytest.raises(RequestError, match=words):
        SamplingParams(**values)
