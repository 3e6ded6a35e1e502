"""Bytes that a sequence's keys and values take on one rank, as a function of its length.

A model is a tuple of layers; each keeps some numbers per token, for ever or for a window, or keeps no growing cache at
all. Left out: recurrent state of fixed size (mamba, linear attention), scales stored beside quantised caches, and
padding that an engine adds to make the blocks of unlike layers equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pagesim.sim.errors import GeometryError


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What one layer keeps for a token: `kv_heads` heads of `numbers_per_head` numbers.

    Ordinary attention keeps a key and a value, 2 x head_dim numbers a head. Latent attention (MLA) keeps ONE vector of
    kv_lora_rank + qk_rope_head_dim numbers, which is one head that every rank holds whole. `window_tokens`: the layer
    forgets what lies further back; None: it forgets nothing.
    """

    kv_heads: int
    numbers_per_head: int
    window_tokens: int | None = None


Layers = tuple[LayerCache | None, ...]
"""A model's layers in order; None is a layer without a growing cache."""


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of a rank that forget alike: their bytes per token together."""

    num_layers: int
    bytes_per_token: int
    window_tokens: int | None

    def tokens_kept(self, tokens: int, block_size: int) -> int:
        """Slots that a sequence of `tokens` tokens holds in these layers.

        Whole blocks. A window of W tokens that starts anywhere in a block touches at most ceil((W - 1)/B) + 1 of them
        (vLLM, SlidingWindowSpec); at B = 1 that is W.
        """
        blocks = -(-tokens // block_size)
        if self.window_tokens is not None:
            blocks = min(blocks, -(-(self.window_tokens - 1) // block_size) + 1)
        return blocks * block_size


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """The cache of one rank. With pipeline stages it is that of the rank that keeps the most."""

    groups: tuple[LayerGroup, ...]

    @property
    def bytes_per_token(self) -> int:
        """Growth per token while no window is full, bytes: sum over layers of heads x numbers x bytes a number."""
        return sum(group.bytes_per_token for group in self.groups)

    @property
    def num_layers(self) -> int:
        """Layers with a growing cache on this rank."""
        return sum(group.num_layers for group in self.groups)

    @property
    def grows_forever(self) -> bool:
        """Whether any layer keeps every token."""
        return any(group.window_tokens is None for group in self.groups)

    def sequence_bytes(self, tokens: int, block_size: int = 1) -> int:
        """Bytes that a sequence of `tokens` tokens holds, in blocks of `block_size`."""
        return sum(group.bytes_per_token * group.tokens_kept(tokens, block_size) for group in self.groups)

    def longest(self, num_bytes: int, block_size: int = 1) -> int | None:
        """The most tokens, in whole blocks, whose cache fits in `num_bytes`; None: any length fits."""
        if not self.grows_forever and self.sequence_bytes(self._saturation_tokens(block_size), block_size) <= num_bytes:
            return None
        fits, too_long = 0, 1
        while self.sequence_bytes(too_long * block_size, block_size) <= num_bytes:
            fits, too_long = too_long, 2 * too_long
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            if self.sequence_bytes(middle * block_size, block_size) <= num_bytes:
                fits = middle
            else:
                too_long = middle
        return fits * block_size

    def _saturation_tokens(self, block_size: int) -> int:
        """A length past which no windowed layer grows."""
        return max(group.window_tokens or 0 for group in self.groups) + 2 * block_size


def plain_cache(bytes_per_token: int) -> CacheGeometry:
    """A cache of which only the bytes per token are known: no windows. Raises GeometryError if they are under 1."""
    if bytes_per_token < 1:
        raise GeometryError(f"bytes per token {bytes_per_token}; accepted: 1 or more")
    return CacheGeometry((LayerGroup(1, bytes_per_token, None),))


def cache_geometry(
    layers: Layers, bytes_per_number: int, tp: int = 1, pp: int = 1, windows: bool = True
) -> CacheGeometry:
    """The cache of one of `tp` x `pp` ranks.

    `windows` False: the hybrid manager is off, so every layer keeps its full length. Raises GeometryError if the model
    cannot be divided so, or if no layer keeps a growing cache.
    """
    stage = max(stages(layers, pp), key=lambda part: _stage_bytes(part, bytes_per_number, tp))
    kept = [layer for layer in stage if layer is not None]
    if not kept:
        raise GeometryError("no layer of this model keeps a growing cache; accepted: a model with attention layers")
    by_window: dict[int | None, list[int]] = {}
    for layer in kept:
        window = layer.window_tokens if windows else None
        by_window.setdefault(window, []).append(layer_bytes(layer, bytes_per_number, tp))
    return CacheGeometry(tuple(LayerGroup(len(part), sum(part), window) for window, part in by_window.items()))


def layer_bytes(layer: LayerCache, bytes_per_number: int, tp: int = 1) -> int:
    """Bytes per token of one layer on one of `tp` ranks."""
    return kv_heads_per_rank(layer.kv_heads, tp) * layer.numbers_per_head * bytes_per_number


def kv_heads_per_rank(kv_heads: int, tp: int) -> int:
    """KV heads that each of `tp` ranks stores: divided while there are enough, then one each, replicated.

    So all ranks together store tp x this. Raises GeometryError unless one of the two divides the other.
    """
    if kv_heads < 1 or tp < 1:
        raise GeometryError(f"{kv_heads} KV heads over {tp} ranks; accepted: 1 or more of each")
    if kv_heads % tp and tp % kv_heads:
        raise GeometryError(f"{kv_heads} KV heads cannot be divided over tp {tp}; accepted: a divisor or a multiple")
    return max(1, kv_heads // tp)


def stages(layers: Layers, pp: int) -> list[Layers]:
    """`layers` cut into `pp` pipeline stages as vLLM cuts them (get_pp_indices).

    What does not divide goes to the stages before the last, one each, from the back. Raises GeometryError unless
    1 <= pp <= layers.
    """
    if not 1 <= pp <= len(layers):
        raise GeometryError(f"pp {pp} for {len(layers)} layers; accepted: 1 to {len(layers)}")
    each, left = divmod(len(layers), pp)
    sizes = [each] * pp
    for back in range(2, left + 2):
        sizes[-back] += 1
    starts = [sum(sizes[:i]) for i in range(pp)]
    return [layers[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def _stage_bytes(stage: Sequence[LayerCache | None], bytes_per_number: int, tp: int) -> int:
    return sum(layer_bytes(layer, bytes_per_number, tp) for layer in stage if layer is not None)


def describe(layers: Layers) -> str:
    """Layers in words, runs of like ones together in order of first appearance: "24 layers full"."""
    kinds = [_kind(layer) for layer in layers]
    counted = {kind: len(list(run)) for kind, run in groupby(sorted(kinds))}
    return ", ".join(f"{counted[kind]} {kind}" for kind in dict.fromkeys(kinds))


def _kind(layer: LayerCache | None) -> str:
    if layer is None:
        return "without a growing cache"
    heads = f"{layer.kv_heads} KV heads x {layer.numbers_per_head} numbers of K and V"
    return f"full ({heads})" if layer.window_tokens is None else f"windowed to {layer.window_tokens} ({heads})"
