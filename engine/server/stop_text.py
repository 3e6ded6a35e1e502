"""Texts that end an answer and are not part of it, found across the tokens they come in."""

from __future__ import annotations

from collections.abc import Iterator


class StopFinder:
    """Reads an answer piece by piece. What may yet turn out to be the start of a stop is held back."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def feed(self, text: str, *, last: bool) -> tuple[str, bool]:
        """What can be given out, and whether a stop was found: then that is the end. `last`: nothing follows."""
        text = self._held + text
        places = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if places:
            return text[: min(places)], True
        held = 0 if last else self._overlap(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def _overlap(self, text: str) -> int:
        """Characters at the end of `text` that start a stop, the most of any."""
        return max((size for stop in self._stops for size in self._sizes(stop, text)), default=0)

    @staticmethod
    def _sizes(stop: str, text: str) -> Iterator[int]:
        return (size for size in range(1, min(len(stop), len(text) + 1)) if text.endswith(stop[:size]))
