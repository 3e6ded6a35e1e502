"""Length distributions as a user writes them: "note", "fixed:256", "uniform:1:2048", "lognormal:260:180:1:2048"."""

from __future__ import annotations

from pagesim.sim.errors import UsageError
from pagesim.sim.lengths import LengthDistribution, fixed, lognormal, note_lengths, uniform

ACCEPTED = "note, fixed:TOKENS, uniform:LOW:HIGH, or lognormal:MEAN:MEDIAN:LOW:HIGH (clipped)"


def parse_lengths(text: str, high: int) -> LengthDistribution:
    """The distribution that `text` names; "note" is clipped at `high` tokens. Raises UsageError on anything else."""
    name, *numbers = text.strip().lower().split(":")
    try:
        match name, [float(number) for number in numbers]:
            case "note", []:
                return note_lengths(high)
            case "fixed", [tokens] if tokens.is_integer():
                return fixed(int(tokens))
            case "uniform", [low, top] if low.is_integer() and top.is_integer():
                return uniform(int(low), int(top))
            case "lognormal", [mean, median, low, top] if low.is_integer() and top.is_integer():
                return lognormal(mean, median, int(low), int(top), "clip")
    except ValueError:
        pass
    raise UsageError(f"--lengths {text!r}; accepted: {ACCEPTED}")
