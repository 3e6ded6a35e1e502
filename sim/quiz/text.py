"""A quiz as text to hand out, and as a document for a grader."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pagesim.sim.errors import UsageError
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Exercise, Question, Topic

SCHEMA = "pagesim.quiz/1"
WIDTH = 100
MOST_EXERCISES = 100
MOST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Quiz:
    """Exercises of one topic."""

    topic: Topic
    seed: int
    count: int
    explicit: str | None
    exercises: Sequence[Exercise]

    @classmethod
    def of(
        cls,
        topic: Topic,
        seed: int = 0,
        count: int = 1,
        explicit: str | None = None,
        on_progress: Callable[[int], None] = lambda exercises: None,
    ) -> Quiz:
        """`count` exercises of `seed`, or the one of a student's own sequence. Raises UsageError.

        `on_progress` is told of each exercise.
        """
        if not 0 <= seed <= MOST_SEED:
            raise UsageError(f"--seed {seed}; accepted: 0 to {MOST_SEED}")
        if not 1 <= count <= MOST_EXERCISES:
            raise UsageError(f"--count {count}; accepted: 1 to {MOST_EXERCISES}")
        if explicit is not None and count > 1:
            raise UsageError(f"--count {count} with --explicit, which is one exercise; accepted: one of the two")
        exercises = []
        for number in range(1, count + 1):
            exercises.append(topic.exercise(Draws.of(seed, number), explicit))
            on_progress(1)
        return cls(topic, seed, count, explicit, exercises)

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter of the topic."""
        return {each.name: getattr(self.topic, each.name) for each in parameters.parameter_fields(self.topic)}

    def document(self, with_answers: bool) -> dict[str, Any]:
        """What `--json` prints: answers and working only `with_answers`."""
        return {
            "schema": SCHEMA,
            "topic": self.topic.NAME,
            "seed": self.seed,
            "count": self.count,
            "explicit": self.explicit,
            "parameters": self.parameters,
            "exercises": [
                {
                    "exercise": number,
                    "sequence": exercise.sequence,
                    "given": list(exercise.given),
                    "questions": [
                        _document(f"{number}.{place}", question, with_answers)
                        for place, question in enumerate(exercise.questions, start=1)
                    ],
                }
                for number, exercise in enumerate(self.exercises, start=1)
            ],
        }

    def lines(self, with_answers: bool) -> Iterator[str]:
        """The page, line by line."""
        yield f"pagesim quiz --topic {self.topic.NAME}"
        yield ""
        yield from self._echoed()
        for number, exercise in enumerate(self.exercises, start=1):
            yield ""
            yield f"Exercise {number} of {self.count}"
            yield ""
            for line in exercise.given:
                yield from textwrap.wrap(line, WIDTH)
            for place, question in enumerate(exercise.questions, start=1):
                yield ""
                yield from _asked(f"{number}.{place}", question, with_answers)
            if self.explicit is None:
                yield ""
                yield f'This sequence: --explicit "{exercise.sequence}"'
        if not with_answers:
            yield ""
            yield "Write down what belongs in the place of each ?. Then run the same command with -c."

    def _echoed(self) -> Iterator[str]:
        """Every parameter, its value, its meaning; beside a sequence of one's own, those that have a say."""
        meanings = {"seed": "of what is drawn", "count": "exercises"} | parameters.meanings(self.topic)
        values = {"seed": self.seed, "count": self.count} | self.parameters
        if self.explicit is not None:
            values = {name: value for name, value in values.items() if name not in self.topic.DRAWN}
        wide = max(len(parameters.flag(name)) for name in values)
        long = max(len(str(value)) for value in values.values())
        for name, value in values.items():
            lead = f"  {parameters.flag(name):{wide}}  {value!s:<{long}}  "
            yield from textwrap.wrap(meanings[name], WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))
        if self.explicit is not None:
            yield f'  --explicit "{self.explicit}"'


def _document(name: str, question: Question, with_answers: bool) -> dict[str, Any]:
    asked = {
        "question": name,
        "text": question.text,
        "asks": {blank.key: blank.what for blank in question.blanks},
    }
    if with_answers:
        asked["answers"] = {blank.key: blank.value for blank in question.blanks}
        asked["working"] = list(question.working)
    return asked


def _asked(name: str, question: Question, with_answers: bool) -> Iterator[str]:
    yield from textwrap.wrap(question.text, WIDTH, initial_indent=f"{name:<5} ", subsequent_indent=" " * 6)
    for blank in question.blanks:
        shown = blank.shown if with_answers else "?"
        yield from textwrap.wrap(f"{blank.what}: {shown}", WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 10)
    for line in question.working if with_answers else ():
        yield from textwrap.wrap(line, WIDTH, initial_indent=" " * 8 + "| ", subsequent_indent=" " * 8 + "|   ")
