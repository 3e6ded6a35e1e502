"""The addresses of a pool as a strip for each allocator: who owns which slots, what of them is filled, what is free.

Of the moment: it asks the allocators themselves, which know nothing of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import plotly.graph_objects as go

from pagesim.sim.allocators import AnyAllocator
from pagesim.sim.errors import UsageError
from pagesim.sim.figures import PARTS, laid_out, styled

MOST_PIECES = 2000
LOOKS = {  # kind of a piece: (colour, pattern, what it means)
    "filled": (*PARTS["used"][:2], "holds tokens"),
    "empty": (*PARTS["internal"][:2], "owned, holds nothing now"),
    "free": (*PARTS["free"][:2], "owned by nobody"),
}
ROW_HEIGHT = 46
LEAST_TEXT = 10  # an owner's name that would be smaller is left out


@dataclass(frozen=True, slots=True)
class Piece:
    """`tokens` slots from address `start`, of one kind; `owner` None: free."""

    kind: str
    start: int
    tokens: int
    owner: int | None


def pieces(allocator: AnyAllocator) -> Iterator[Piece]:
    """Every slot of the pool in one of them, in no order. Tokens fill their owner's slots in the order of `extents`."""
    for extent in allocator.free_extents():
        yield Piece("free", extent.start, extent.tokens, None)
    for owner, tokens in allocator.tokens.items():
        left = tokens
        for extent in allocator.extents(owner):
            filled = min(left, extent.tokens)
            left -= filled
            if filled:
                yield Piece("filled", extent.start, filled, owner)
            if filled < extent.tokens:
                yield Piece("empty", extent.start + filled, extent.tokens - filled, owner)


def strips(allocators: Mapping[str, AnyAllocator]) -> go.Figure:
    """A strip for each, by name, one above the other on one axis of addresses; owners are named where there is room.

    Raises UsageError if there are more than MOST_PIECES pieces to draw.
    """
    found = {name: sorted(pieces(each), key=lambda piece: piece.start) for name, each in allocators.items()}
    if sum(map(len, found.values())) > MOST_PIECES:
        raise UsageError(f"{sum(map(len, found.values())):,} pieces to draw; accepted: up to {MOST_PIECES:,}")
    figure = go.Figure()
    for kind, (colour, pattern, meaning) in LOOKS.items():
        rows = [(name, piece) for name, each in found.items() for piece in each if piece.kind == kind]
        figure.add_bar(
            y=[name for name, _ in rows], base=[piece.start for _, piece in rows],
            x=[piece.tokens for _, piece in rows], orientation="h", name=f"{kind}: {meaning}",
            text=["" if piece.owner is None else str(piece.owner) for _, piece in rows],
            textposition="inside", textangle=0, insidetextanchor="middle",
            customdata=[piece.start + piece.tokens - 1 for _, piece in rows],
            marker={"color": colour, "line": {"color": "#555555", "width": 1},
                    "pattern": {"shape": pattern, "fgcolor": "#555555", "size": 6}},
            hovertemplate="%{y}: %{base} to %{customdata}, %{x} slots, owner %{text}<extra>" + kind + "</extra>",
        )  # fmt: skip
    figure.update_yaxes(categoryorder="array", categoryarray=list(found), autorange="reversed")
    longest = max((each.pool.capacity_tokens for each in allocators.values()), default=0)
    figure.update_xaxes(title_text="address, slots of one token", range=[0, longest])
    figure.update_layout(barmode="overlay", uniformtext={"minsize": LEAST_TEXT, "mode": "hide"})
    return styled(laid_out(figure, ROW_HEIGHT * len(found) + 20, len(LOOKS)))
