"""The kinds of JSON Lines trace: Mooncake and its relatives, Qwen-Bailian, RAGPulse, and our own.

Each is a typed row, which msgspec decodes, and what holds for every row of a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from pagesim.sim.readers.row_batch import Shape

Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Hashes = list[Whole]
Name = str | Whole | None


class MooncakeRow(msgspec.Struct, gc=False):
    """Mooncake, vLLM's timed trace, SGLang, AIPerf. Milliseconds."""

    timestamp: float
    input_length: float
    output_length: float
    hash_ids: Hashes | None = None
    session_id: Name = None


class BailianRow(msgspec.Struct, gc=False):
    """Qwen-Bailian. Seconds. Each row already carries its whole context."""

    timestamp: float
    input_length: float
    output_length: float
    chat_id: Whole
    parent_chat_id: Whole
    hash_ids: Hashes | None = None


class RagPulseIds(msgspec.Struct, gc=False):
    """The pieces of a RAGPulse prompt: each id names one text, whose length is told in another file."""

    sys_prompt: Hashes
    passages_ids: Hashes
    history: Hashes
    web_search: Hashes
    user_input: Hashes


class RagPulseRow(msgspec.Struct, gc=False):
    """RAGPulse. Seconds, written as strings."""

    timestamp: str
    input_length: float
    output_length: float
    hash_ids: RagPulseIds | None = None
    session_id: Name = None


class OwnRow(msgspec.Struct, gc=False):
    """pagesim's own row. Seconds."""

    arrival_s: float
    prompt_tokens: float
    output_tokens: float
    hash_ids: Hashes | None = None
    session: str | None = None
    cache_salt: str | None = None
    adapter: str | None = None
    n: Whole | None = None
    priority: Whole | None = None


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """One kind of JSON Lines trace: its row, and what holds for all rows."""

    row: type[msgspec.Struct]
    shape: Shape

    @property
    def required(self) -> list[str]:
        """The keys without which a row is not of this format."""
        return [field.encode_name for field in msgspec.structs.fields(self.row) if field.required]


_LENGTHS = {"arrival": "timestamp", "prompt_tokens": "input_length", "output_tokens": "output_length"}

BAILIAN = JsonFormat(
    BailianRow,
    Shape(
        "bailian",
        {**_LENGTHS, "hash_ids": "hash_ids", "chat_id": "chat_id", "parent_chat_id": "parent_chat_id"},
        ticks_per_s=1,
        hash_block_tokens=16,
    ),
)
RAGPULSE = JsonFormat(
    RagPulseRow,
    Shape(
        "ragpulse",
        {**_LENGTHS, "session": "session_id"},
        ticks_per_s=1,
        notes=(
            "hash_ids are left out: each names a piece of text with a length of its own, told in other files, and not "
            "a block of so many tokens",
        ),
    ),
)
MOONCAKE = JsonFormat(
    MooncakeRow,
    Shape(
        "mooncake",
        {**_LENGTHS, "hash_ids": "hash_ids", "session": "session_id"},
        ticks_per_s=1_000,
        hash_block_tokens=512,
    ),
)
_OWN_COLUMNS = ("prompt_tokens", "output_tokens", "hash_ids", "session", "cache_salt", "adapter", "n", "priority")
OWN = JsonFormat(
    OwnRow,
    Shape("pagesim", {"arrival": "arrival_s", **{name: name for name in _OWN_COLUMNS}}, ticks_per_s=1, shift=False),
)


def kind_of(row: dict[str, Any]) -> JsonFormat | None:
    """The format a first row is of, or most resembles, by its keys; None if it resembles none."""
    if "chat_id" in row or "parent_chat_id" in row:
        return BAILIAN
    if isinstance(row.get("hash_ids"), dict):
        return RAGPULSE
    kinds = [kind for kind in (MOONCAKE, OWN) if any(name in row for name in kind.required)]
    return max(kinds, key=lambda kind: sum(name in row for name in kind.required), default=None)
