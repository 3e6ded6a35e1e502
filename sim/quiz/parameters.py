"""The parameters of a topic: fields of a dataclass that carry what they mean and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any

from pagesim.sim.errors import UsageError


def number(default: int, low: int, high: int, what: str) -> Any:
    """A field for a whole number from `low` to `high`."""
    return field(default=default, metadata={"low": low, "high": high, "what": what})


def choice(default: str, words: Mapping[str, str], what: str) -> Any:
    """A field for one of `words`, each with its meaning."""
    return field(default=default, metadata={"words": words, "what": what})


def parameter_fields(topic: Any) -> list[Field[Any]]:
    """Those of a topic, or of its class, that are parameters."""
    return [each for each in fields(topic) if "what" in each.metadata]


def check(topic: Any) -> None:
    """Raise UsageError unless every parameter of a topic is what its field accepts."""
    for each in parameter_fields(topic):
        value, accepted = getattr(topic, each.name), each.metadata
        if "words" in accepted:
            if value not in accepted["words"]:
                raise UsageError(f"{flag(each.name)} {value}; accepted: {', '.join(accepted['words'])}")
        elif not accepted["low"] <= value <= accepted["high"]:
            raise UsageError(f"{flag(each.name)} {value}; accepted: {accepted['low']} to {accepted['high']}")


def made(topic: Any, said: Mapping[str, Any], **others: Any) -> Any:
    """The topic, a class, with the parameters that were said, and what else it takes.

    Raises UsageError if a parameter is of another topic.
    """
    known = [each.name for each in parameter_fields(topic)]
    for name in said:
        if name not in known:
            accepted = ", ".join(map(flag, known))
            raise UsageError(f"{flag(name)} is not of --topic {topic.NAME}; accepted: {accepted}")
    return topic(**said, **others)


def meanings(topic: Any) -> dict[str, str]:
    """What each parameter of a topic means, with the meaning of the word chosen."""
    found = {}
    for each in parameter_fields(topic):
        words = each.metadata.get("words")
        found[each.name] = each.metadata["what"] + (f": {words[getattr(topic, each.name)]}" if words else "")
    return found


def flag(name: str) -> str:
    """Its option."""
    return "--" + name.replace("_", "-")
