"""What an exercise is made of: something given, questions with blanks, and the working of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pagesim.sim.quiz.draws import Draws


@dataclass(frozen=True, slots=True)
class Blank:
    """One thing to fill in: `key` and `value` for a grader, `what` and `shown` for a person."""

    key: str
    what: str
    value: Any
    shown: str


@dataclass(frozen=True, slots=True)
class Question:
    """`text` says what happens; the blanks are what is asked; `working` is how one finds it, line by line."""

    text: str
    blanks: tuple[Blank, ...]
    working: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exercise:
    """`sequence`: what `--explicit` takes to ask the same again. `given`: lines that set the scene."""

    sequence: str
    given: tuple[str, ...]
    questions: tuple[Question, ...]


class Topic(Protocol):
    """A frozen dataclass whose fields are the topic's parameters, each with its meaning (`parameters.number`)."""

    NAME: ClassVar[str]
    SEQUENCE: ClassVar[str]
    """What `--explicit` takes, in words."""
    DRAWN: ClassVar[frozenset[str]]
    """Parameters that decide only what is drawn: they have no say beside `--explicit`."""

    def exercise(self, draws: Draws, explicit: str | None) -> Exercise:
        """One exercise, drawn, or of a student's own sequence. Raises UsageError on a sequence that makes no sense."""
