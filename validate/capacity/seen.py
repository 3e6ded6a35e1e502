"""What the children of the capacity probe saw: plain numbers, for which nothing is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Probed:
    """What the probe saw, in bytes.

    `limit_bytes`: all there was to take; `before_bytes`: of it, taken by others at the start. `weights_bytes`: of the
    weights' own numbers; `head_copied`: whether they hold a tied head a second time, beside the embedding, as on a
    CPU; `beside_weights_bytes`: what loading them took beside. `buffer_bytes`: one reservation. `count`: how many
    there were when the next was refused; `left_bytes`: what was then still to be had. `touched_bytes`: of the buffers,
    what was really written; None on a card. `refused`: whether there was a refusal.
    """

    limit_bytes: int
    before_bytes: int
    weights_bytes: int
    head_copied: bool
    beside_weights_bytes: int
    buffer_bytes: int
    count: int
    left_bytes: int
    touched_bytes: int | None
    refused: bool
    refused_by: str
    device: str


@dataclass(frozen=True, slots=True)
class Started:
    """`took_bytes`: of memory, at the start, its cache written full. `cache_bytes`: of its tensors.

    `head_copied`: as in Probed. `number_bytes`: of one number in the cache. `rule`: how the blocks were decided.
    """

    model: str
    number_bytes: int
    limit_bytes: int | None
    weights_bytes: int
    head_copied: bool
    activation_bytes: int
    rule: str
    num_blocks: int
    cache_bytes: int
    took_bytes: int
    total_bytes: int | None
    report: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """`count`: sequences of `tokens` tokens that a cache of `kind` held at once; `findings`: a line each."""

    kind: str
    tokens: int
    count: int
    findings: tuple[str, ...]
