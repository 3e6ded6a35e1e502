"""The pages as they are handed out: byte for byte, on every version of Python; and `pagesim quiz` around them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from pagesim import cli
from pagesim.commands.quiz import quiz
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.topics import TOPICS

GOLDEN = Path(__file__).parent / "golden"
PAGES = {
    "placement": ["--topic", "placement", "--seed", "3", "--count", "2", "-c"],
    "placement-asked": ["--topic", "placement", "--seed", "3", "--policy", "next"],
    "placement-buddy": ["--topic", "placement", "--policy", "buddy", "--size", "48", "-c"],
    "placement-explicit": ["--topic", "placement", "--policy", "worst", "--explicit", "+10,+20,-0,+30,+12,+1", "-c"],
    "paging": ["--topic", "paging", "--seed", "7", "-c"],
    "prefix": ["--topic", "prefix", "--seed", "7", "-c"],
    "prefix-explicit": ["--topic", "prefix", "--explicit", "+AB,+AB,-0,+ABC1,-1,-2,+DEFGH,+AB1,+x:AB1", "-c"],
    "preemption": ["--topic", "preemption", "--seed", "7", "-c"],
    "kernel": ["--topic", "kernel", "--seed", "7", "-c"],
}
REFUSED = {
    "": "error: no --topic given; accepted: placement, paging, prefix, preemption, kernel",
    "--topic heap": "error: --topic heap; accepted: placement, paging, prefix, preemption, kernel",
    "--topic paging --policy first": "error: --policy is not of --topic paging; accepted: --num-blocks, --block-size, ",
    "--topic placement --policy worse": "error: --policy worse; accepted: first, best, next, worst, buddy",
    "--topic placement --size 0": "error: --size 0; accepted: 1 to 1048576",
    "--topic placement --seed -1": "error: --seed -1; accepted: 0 to ",
    "--topic placement --count 101": "error: --count 101; accepted: 1 to 100",
    "--topic placement --explicit +1 --count 2": "error: --count 2 with --explicit, which is one exercise",
    "--topic placement --explicit +1 --ops 3": "error: --ops and --explicit, which says all of that; accepted: one",
    "--topic placement --explicit +1,,-0": "error: --explicit, part 2, ''; accepted: +N (a sequence",
    "--topic placement --explicit +1,-1": "error: --explicit, part 2, '-1'; accepted: one that is there now: 0",
    "--topic placement --explicit +1,-0,-0": "error: --explicit, part 3, '-0'; accepted: an arrival: nobody is there",
    "--topic placement --explicit 0+4": "error: --explicit, part 1, '0+4'; accepted: +N (a sequence",
    "--topic paging --explicit +0": "error: --explicit, part 1, '+0'; accepted: +N (a sequence",
    "--topic paging --explicit 0+4": "error: --explicit, part 1, '0+4'; accepted: an arrival: nobody is there",
    "--topic prefix --explicit +AB5": "error: --explicit, part 1, '+AB5'; accepted: fewer than --block-size 4 tokens",
    "--topic prefix --explicit +ab": "error: --explicit, part 1, '+ab'; accepted: +ABC2 (a prompt",
    "--topic prefix --explicit +": "error: --explicit, part 1, '+'; accepted: +ABC2 (a prompt",
    "--topic preemption --explicit 100:1": "error: --explicit, part 1, '100:1'; accepted: P + N - 1 up to 28",
    "--topic preemption --explicit 4:4@2,4:4": "error: --explicit, part 2, '4:4'; accepted: a step no earlier than",
    "--topic preemption --explicit 4:0": "error: --explicit, part 1, '4:0'; accepted: P:N or P:N@STEP",
    "--topic kernel --explicit 1,2": "error: --explicit, part 2, '2'; accepted: as many blocks as the sequence has, 3",
    "--topic kernel --explicit 1,2,2": "error: --explicit, part 3, '2'; accepted: the block table",
    "--topic kernel --block-size 8": "error: block_size is 8; the Triton backend takes multiples of 16",
    "--topic kernel --heads 3": "error: num_heads is 3; accepted: a multiple of num_kv_heads, 2",
}


@pytest.fixture
def pagesim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["pagesim", "quiz", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, *capsys.readouterr()

    return call


def test_one_free_block_is_one(pagesim: Any) -> None:
    _, out, _ = pagesim("--topic", "prefix", "--seed", "3", "-c")
    assert "| 1 free block wanted (" in out and "| 2 free blocks wanted (" in out


@pytest.mark.parametrize("name", PAGES)
def test_a_page_never_changes(name: str, pagesim: Any) -> None:
    """Written by `pagesim quiz ... > tests/quiz/golden/NAME.txt`, and read through before it was kept."""
    status, out, err = pagesim(*PAGES[name])
    assert (status, err) == (0, "")
    assert out == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("topic", TOPICS)
def test_without_c_nothing_is_given_away(topic: str, pagesim: Any) -> None:
    asked = pagesim("--topic", topic)[1]
    answered = pagesim("--topic", topic, "-c")[1]
    assert "|" not in asked
    assert asked.count(": ?\n") == len(re.findall(r"^ {6}\S.*: ", answered, re.MULTILINE))
    document = json.loads(pagesim("--topic", topic, "--json")[1])
    questions = [question for exercise in document["exercises"] for question in exercise["questions"]]
    assert questions
    assert all(question.keys() == {"question", "text", "asks"} for question in questions)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_document_of_a_grader(topic: str, pagesim: Any) -> None:
    document = json.loads(pagesim("--topic", topic, "--json", "-c", "--count", "2", "--seed", "5")[1])
    assert list(document) == ["schema", "topic", "seed", "count", "explicit", "parameters", "exercises"]
    assert (document["schema"], document["topic"], document["seed"]) == ("pagesim.quiz/1", topic, 5)
    assert [exercise["exercise"] for exercise in document["exercises"]] == [1, 2]
    for exercise in document["exercises"]:
        assert [question["question"] for question in exercise["questions"]] == [
            f"{exercise['exercise']}.{place}" for place in range(1, len(exercise["questions"]) + 1)
        ]
        for question in exercise["questions"]:
            assert question["answers"].keys() == question["asks"].keys()
            assert question["working"]


@pytest.mark.parametrize("topic", TOPICS)
def test_the_sequence_of_an_exercise_asks_the_same_again(topic: str, pagesim: Any) -> None:
    drawn = json.loads(pagesim("--topic", topic, "--json", "-c", "--seed", "4")[1])
    again = json.loads(
        pagesim("--topic", topic, "--json", "-c", "--seed", "4", "--explicit", drawn["exercises"][0]["sequence"])[1]
    )
    assert again["exercises"] == drawn["exercises"]
    assert again["explicit"] == drawn["exercises"][0]["sequence"]


@pytest.mark.parametrize("topic", TOPICS)
def test_more_exercises_begin_with_the_same(topic: str, pagesim: Any) -> None:
    one, three = (json.loads(pagesim("--topic", topic, "--json", "-n", count)[1]) for count in ("1", "3"))
    assert three["exercises"][:1] == one["exercises"]
    assert len({exercise["sequence"] for exercise in three["exercises"]}) > 1


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_one_line(words: str, pagesim: Any) -> None:
    status, out, err = pagesim(*words.split())
    assert (status, out) == (2, "")
    assert err.startswith(REFUSED[words])
    assert err.count("\n") == 1


def test_the_commands_of_the_docs_run(pagesim: Any) -> None:
    page = (Path(__file__).parents[2] / "docs" / "quiz.md").read_text()
    lines = [line for line in page.splitlines() if line.startswith("pagesim quiz --")]
    assert len(lines) > 5
    for line in lines:
        status, out, err = pagesim(*shlex.split(line)[2:])
        assert (status, err) == (0, ""), line
        assert out


def test_the_help_names_the_defaults_of_the_topics() -> None:
    hints = quiz.__annotations__
    for topic in TOPICS.values():
        for field in parameters.parameter_fields(topic):
            assert f"Annotated[{type(field.default).__name__} | None" in hints[field.name], field.name
            (named,) = re.findall(r"\[default: ([^\]]*)\]", hints[field.name])
            assert str(field.default) in re.split(r"[,;: ]+", named), (topic.NAME, field.name)
