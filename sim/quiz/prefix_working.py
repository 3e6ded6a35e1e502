"""How a look-up, an admission and a departure go in a pool with prefix caching, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pagesim.sim.quiz.prefix_pool import COPY, PLAIN, Prompt, text_of
from pagesim.sim.quiz.wording import counted


def looked_up(prompt: Prompt, size: int, hit: int, cached: set[str]) -> list[str]:
    """From the front, as far as blocks are found, at most to the last token but one."""
    tokens, blocks = prompt.tokens(size), prompt.blocks
    most = (tokens - 1) // size
    lines = []
    if blocks:
        hashes = [f"{name} = H({before}, {name[-1]})" for before, name in zip(_before(prompt), blocks, strict=False)]
        lines.append(f"hashes of its full blocks: {'; '.join(hashes)}")
    capped = len(blocks) > most
    lines.append(
        f"at most {tokens} - 1 = {tokens - 1} tokens may be found: {counted(most, 'whole block')}"
        + (f", so {blocks[-1]} is not even looked up" if capped else "")
    )
    found = blocks[: hit // size]
    assert all(name in cached for name in found), (prompt.text, hit, cached)
    if found:
        lines.append(f"found: {', '.join(found)}: {len(found)} * {size} = {hit} tokens")
    if len(found) < min(most, len(blocks)):
        missed = blocks[len(found)]
        assert missed not in cached, (prompt.text, hit, cached)
        lines.append(f"{missed} is not there: the hit ends before it")
    return lines


def _before(prompt: Prompt) -> list[str]:
    return [f"salt {prompt.salt}" if prompt.salt else "nothing", *prompt.blocks]


def admitted(table: Sequence[str], found: int, held: Mapping[str, int], free: Sequence[str]) -> list[str]:
    """What becomes of the blocks found, and where the others come from."""
    lines = []
    for name in table[:found]:
        if name in held:
            lines.append(f"{name} is held by {held[name]} already: now by {held[name] + 1}")
        else:
            lines.append(f"{name} lay free: it leaves the free list, and is held by 1")
    rest = [name for name in free if name not in table[:found] or name == PLAIN]
    new = len(table) - found
    taken = rest[:new]
    if new:
        lines.append(f"{new} to compute, from the head of the free list: {text_of(taken)}")
    forgotten = [name for name in taken if name != PLAIN]
    if forgotten:
        lines.append(f"their hashes are forgotten: {', '.join(forgotten)}")
    hashed = [name for name in table[found:] if name != PLAIN]
    if hashed:
        copies = [name for name in hashed if name.endswith(COPY)]
        more = f"; {', '.join(copies)} beside what is there already" if copies else ""
        lines.append(f"full, so they get a hash: {', '.join(hashed)}{more}")
    if table[-1] == PLAIN:
        lines.append("its last block is not full, and has none")
    return lines


def left(table: Sequence[str], held: Mapping[str, int]) -> list[str]:
    """What becomes of the blocks of a table, from its end."""
    lines = []
    for name in reversed(table):
        if name == PLAIN:
            lines.append("- goes to the head")
        elif held[name] > 1:
            lines.append(f"{name} was held by {held[name]}: now by {held[name] - 1}")
        else:
            lines.append(f"{name} is held by nobody now: to the tail")
    return lines
