"""Forgiving names: "Qwen/Qwen2.5-0.5B-Instruct" and "qwen2.5_0.5b" both mean qwen2.5-0.5b; a typo gets near matches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

_ENDINGS = re.compile(r"-(instruct|chat|it|hf|base|gpu)$")
_MAKERS = re.compile(r"^(nvidia|tesla|geforce|amd|instinct|meta)-")


def normal(name: str) -> str:
    """Lower case, no owner, hyphens between words, no maker in front and no "-instruct" or the like behind."""
    short = re.sub(r"[\s_]+", "-", name.strip().lower().rsplit("/", 1)[-1])
    while shorter := _MAKERS.sub("", _ENDINGS.sub("", short)):
        if shorter == short:
            break
        short = shorter
    return short


def matching(name: str, known: Mapping[str, str]) -> str | None:
    """The canonical name that `name` means. `known`: every accepted spelling, as `normal` writes it, to canonical."""
    return known.get(normal(name))


def near(name: str, known: Mapping[str, str]) -> list[str]:
    """Canonical names that look like `name`, best first, at most four."""
    spelled = difflib.get_close_matches(normal(name), list(known), n=8, cutoff=0.5)
    return list(dict.fromkeys(known[spelling] for spelling in spelled))[:4]
