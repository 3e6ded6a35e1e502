"""Numbers that must never change."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pagesim.sim.quiz
from pagesim.sim.quiz.draws import Draws


def test_it_is_splitmix64() -> None:
    """The first numbers of seed 1234567 as Vigna's splitmix64.c prints them."""
    draws = Draws(1234567)
    assert [draws.bits() for _ in range(5)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


def test_every_number_between_two_comes_up_about_as_often() -> None:
    draws = Draws(1)
    counts = Counter(draws.between(3, 7) for _ in range(5_000))
    assert sorted(counts) == [3, 4, 5, 6, 7]
    assert all(900 < count < 1_100 for count in counts.values())


def test_a_sample_has_each_number_once() -> None:
    assert sorted(Draws(2).sample(10, 10)) == list(range(10))


def test_no_topic_asks_another_generator() -> None:
    for path in Path(pagesim.sim.quiz.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert "random" not in names, path
            assert not (isinstance(node, ast.Attribute) and node.attr in ("random", "default_rng")), path
