"""A step-time profile as a file: coefficients, and where they come from.

The file is JSON, schema `pagesim.profile/1`: what it was measured on, the form, the coefficients in seconds, the rows
that they were fitted on with the work in each, the rows that were held out, and what had to be assumed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.fit import Measurement
from pagesim.sim.serving.steptime import ACCEPTED, LinearStep

SCHEMA = "pagesim.profile/1"
FORM = (
    "step = base_s + per_token_s*tokens + per_pair_s*(prefill pairs + 2*decode contexts) + per_sequence_s*sequences; "
    "a chunk of n tokens behind m has n*m + n*(n+1)/2 pairs"
)
SPLIT_FORM = (
    "step = base_s + per_token_s*tokens + per_pair_s*prefill pairs + per_context_s*decode contexts + "
    "per_sequence_s*sequences, + prefill_s if there are any prefill pairs; "
    "curve, if there is one, is what tokens cost in place of per_token_s*tokens: straight from [1, per_token_s] to the "
    "first [tokens, seconds] and from one to the next, per_token_s for each token after the last; "
    "a chunk of n tokens behind m has n*m + n*(n+1)/2 pairs"
)
REFERENCE = "t4-qwen2.5-0.5b-vllm0.29"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A figure that took no part in the fit: published, as the profile has it, and its standing."""

    figure: str
    what: str
    unit: str
    published: tuple[float, ...]
    modelled: float
    standing: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A fitted step-time model and its provenance."""

    schema: str
    name: str
    measured_on: str
    form: str
    coefficients: LinearStep
    fitted_on: tuple[Measurement, ...]
    held_out: tuple[HeldOut, ...]
    assumed: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """The content of the file. What is None, and so has no place in the form, is left out."""
        whole: dict[str, object] = asdict(self, dict_factory=_given)
        return whole


def _given(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}


def read_profile(path: Path) -> Profile:
    """Read a profile. Raises UsageError naming the file and what is wrong in it."""
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=Profile)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error
    except (msgspec.MsgspecError, UsageError) as error:
        raise UsageError(f"{path}: not a step-time profile ({error})") from error
    if profile.schema != SCHEMA:
        raise UsageError(f"{path}: schema {profile.schema!r}; accepted: {SCHEMA}")
    return profile


def reference_profile() -> Profile:
    """The profile that is shipped: one Tesla T4, Qwen2.5-0.5B, vLLM 0.29."""
    return read_profile(Path(__file__).with_name(f"{REFERENCE}.json"))


def find_profile(name: str) -> Profile:
    """The profile that is shipped, by its name, or that of a file. Raises UsageError if there is neither."""
    if name == REFERENCE:
        return reference_profile()
    if not Path(name).is_file():
        raise UsageError(
            f"step time '{name}' is no form and no file here; accepted: {ACCEPTED}: {REFERENCE}, or its file"
        )
    return read_profile(Path(name))
