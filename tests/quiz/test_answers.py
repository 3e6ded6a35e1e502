"""Every answer, and every sum in the working, against exercises solved by hand (`brute_force`)."""

from __future__ import annotations

import re
from typing import Any

import brute_force
import pytest

from pagesim.kernels import account
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Exercise, Question
from pagesim.sim.quiz.kernel import Kernel
from pagesim.sim.quiz.paging import Paging
from pagesim.sim.quiz.placement import POLICIES, Placement
from pagesim.sim.quiz.preemption import VICTIMS, Preemption
from pagesim.sim.quiz.prefix import Prefix

SUM = re.compile(r"(\d[\d */%+().-]*[*/%+-][\d */%+().-]*\d) = (\d+)(?![\d.%])")
SEEDS = range(25)


def exercises(topic: Any, seeds: range = SEEDS) -> list[Exercise]:
    return [topic.exercise(Draws.of(seed, 1), None) for seed in seeds]


def answers(exercise: Exercise) -> list[dict[str, Any]]:
    return [{blank.key: blank.value for blank in question.blanks} for question in exercise.questions]


def sums_checked(question: Question) -> int:
    """Every `sum = number` in the working is true; how many there were."""
    found = SUM.findall(" ; ".join(question.working))
    for terms, value in found:
        assert eval(terms) == int(value), (terms, value, question.working)
    return len(found)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("size", [40, 64])
def test_placement(policy: str, size: int) -> None:
    topic = Placement(size=size, policy=policy, ops=30, percent_arrivals=60)
    for exercise in exercises(topic):
        assert answers(exercise) == brute_force.placement(exercise.sequence, size, policy)
        assert sums_checked(exercise.questions[-1]) >= 1
        for question in exercise.questions[:-1]:
            lands = [line for line in question.working if "is the sequence's" in line]
            address = question.blanks[0].value
            if question.blanks[0].key == "address" and address is not None:
                (line,) = lands
                assert line.startswith(f"[{address}, ")
            else:
                assert lands == []


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_said_of_each_run_of_a_search_is_true(policy: str) -> None:
    for exercise in exercises(Placement(policy=policy, ops=30)):
        free = [[0, 64]]
        for question in exercise.questions[:-1]:
            for start, end, tokens in re.findall(r"\[(\d+), (\d+)\) has (\d+)", "; ".join(question.working)):
                assert [int(start), int(end)] in free
                assert int(tokens) == int(end) - int(start)
            free = {blank.key: blank.value for blank in question.blanks}["free"]


def test_an_exercise_of_placement_has_a_choice_and_a_refusal() -> None:
    for exercise in exercises(Placement()):
        assert answers(exercise)[-1]["refused_with_room"] > 0


def test_paging() -> None:
    for exercise in exercises(Paging(ops=20, lookups=4)):
        asked = [re.match(r"Sequence (\d+), position (\d+)", question.text) for question in exercise.questions]
        lookups = [(int(one[1]), int(one[2])) for one in asked if one]
        solved = brute_force.paging(exercise.sequence, 12, 4, lookups)
        assert answers(exercise) == solved
        assert sum(sums_checked(question) for question in exercise.questions) > len(lookups)


@pytest.mark.parametrize("num_blocks", [5, 9, 14])
def test_prefix(num_blocks: int) -> None:
    topic = Prefix(num_blocks=num_blocks, ops=30, letters=2, max_blocks=4)
    refused = hits = copies = 0
    for exercise in exercises(topic):
        solved = brute_force.prefix(exercise.sequence, num_blocks, 4)
        assert answers(exercise) == solved
        refused += sum(one.get("table", "") is None for one in solved)
        hits += sum(one.get("hit_tokens", 0) > 0 for one in solved)
        copies += sum("'" in str(one.get("table")) for one in solved)
        for question in exercise.questions:
            sums_checked(question)
            new = re.search(r"(\d+) to compute, from the head", " ; ".join(question.working))
            if new and (table := question.blanks[1].value):
                assert int(new[1]) == len(table) - question.blanks[0].value // 4
    assert min(refused, hits, copies) > 0


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("token_budget", [5, 16])
def test_preemption(victim: str, token_budget: int) -> None:
    topic = Preemption(victim=victim, token_budget=token_budget, requests=5, max_num_seqs=4)
    put_back = 0
    for exercise in exercises(topic):
        solved = brute_force.preemption(exercise.sequence, 8, 4, token_budget, 4, victim)
        assert answers(exercise) == solved, exercise.sequence
        put_back += len(solved[0]["preemptions"])
        assert sums_checked(exercise.questions[1]) == 5
        for step, row in solved[0]["preemptions"]:
            (line,) = [line for line in exercise.questions[0].working if line.startswith(f"why in step {step}:")]
            assert f"r{row} (" in line.partition("back goes")[2]
    assert put_back >= len(SEEDS)


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"seq_len": 70, "tile": 64, "heads": 14, "kv_heads": 2},
        {"seq_len": 70, "block_size": 48, "tile": 32, "heads": 3, "kv_heads": 3, "item_bytes": 1},
    ],
    ids=["default", "wide tiles", "a tile over two blocks"],
)
def test_kernel(sizes: dict[str, int]) -> None:
    topic = Kernel(account=account, **sizes)
    same = {name: getattr(topic, name) for name in ("block_size", "kv_heads", "head_dim", "item_bytes")}
    for exercise in exercises(topic, range(5)):
        table = [int(block) for block in exercise.sequence.split(",")]
        layer = brute_force.Layer(table, **same)
        strides, *others, step = answers(exercise)
        expected = {"slot_stride": layer.stride(2), "value_offset": layer.stride(1), "block_stride": layer.stride(0)}
        assert {name: strides[name] for name in expected} == expected
        read = 0
        for question, got in zip(exercise.questions[1:-1], others, strict=True):
            sums_checked(question)
            if "positions" not in got:
                head, position = map(int, re.findall(r"\d+", question.text))
                kv_head = head * topic.kv_heads // topic.heads
                assert got == {
                    "kv_head": kv_head, "block": table[position // topic.block_size],
                    "offset": position % topic.block_size, "key_bytes": layer.read(position, kv_head, 0),
                    "value_bytes": layer.read(position, kv_head, 1),
                }  # fmt: skip
                continue
            number, kv_head = map(int, re.findall(r"\d+", question.text))
            positions = range(number * topic.tile, min((number + 1) * topic.tile, topic.seq_len))
            spans = [layer.read(position, kv_head, which) for position in positions for which in (0, 1)]
            blocks = list(dict.fromkeys(table[position // topic.block_size] for position in positions))
            assert got == {
                "positions": [positions[0], positions[-1]], "blocks": blocks, "first_key_bytes": spans[0],
                "last_key_bytes": spans[-2], "kv_bytes": sum(end - start for start, end in spans),
                "lookups_by_position": len(positions), "lookups_by_block": len(blocks),
            }  # fmt: skip
            read += got["kv_bytes"]
        assert step["kv_bytes"] == read * topic.kv_heads
        assert step["multiply_adds"] == topic.heads * topic.seq_len * topic.head_dim * 2
        assert step["table_bytes"] == len(table) * 4
        assert sums_checked(exercise.questions[-1]) >= 2
