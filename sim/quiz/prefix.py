"""Prefix caching: blocks found again by the hash of all text up to their end, counted references, LRU order.

The answers are those of the simulator's pool (`sim.serving.prefix_pool`), whose rules are vLLM 0.29's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from pagesim.sim.quiz import operations as o
from pagesim.sim.quiz import parameters
from pagesim.sim.quiz.draws import Draws
from pagesim.sim.quiz.exercise import Blank, Exercise, Question
from pagesim.sim.quiz.prefix_pool import NamedPool, Prompt, text_of
from pagesim.sim.quiz.prefix_working import admitted, left, looked_up
from pagesim.sim.quiz.wording import counted

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SALTS = "xyz"
MOST_LETTERS = 32  # of a prompt
FORM = re.compile(r"\+(?:(?P<salt>[a-z]):)?(?P<text>[A-Z]*)(?P<tail>\d{0,4})", re.ASCII)
LEAVES = re.compile(r"-(?P<owner>\d{1,6})", re.ASCII)
ACCEPTED = (
    "+ABC2 (a prompt of full blocks A, B, C and 2 tokens more, fewer than a block), +x:ABC2 (the same with salt x) or "
    "-K (the K-th that arrived, from 0, leaves)"
)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What does each prompt find in the cache, which blocks does it take, whose hashes are forgotten?"""

    NAME: ClassVar[str] = "prefix"
    SEQUENCE: ClassVar[str] = ACCEPTED
    DRAWN: ClassVar[frozenset[str]] = frozenset({"ops", "max_blocks", "letters", "percent_arrivals", "percent_salted"})

    num_blocks: int = parameters.number(9, 2, 2**12, "blocks of the pool, one of which is the null block")
    block_size: int = parameters.number(4, 2, 2**12, "tokens in a block")
    ops: int = parameters.number(8, 1, o.MOST_OPERATIONS, "arrivals and departures in an exercise")
    max_blocks: int = parameters.number(4, 1, MOST_LETTERS, "full blocks of the longest prompt that is drawn")
    letters: int = parameters.number(3, 1, len(LETTERS), "different texts of a block that are drawn, A, B, ...")
    percent_arrivals: int = parameters.number(60, 1, 100, "of 100 operations drawn, so many are arrivals")
    percent_salted: int = parameters.number(15, 0, 100, "of 100 prompts drawn, so many carry a cache salt")

    def __post_init__(self) -> None:
        parameters.check(self)

    def exercise(self, draws: Draws, explicit: str | None) -> Exercise:
        """One exercise. Raises UsageError on a sequence that makes no sense."""
        steps = self._parsed(explicit) if explicit is not None else self._drawn(draws)
        prompts = [step for step in steps if isinstance(step, Prompt)]
        pool = NamedPool(self.num_blocks - 1, self.block_size, prompts)
        live: list[int] = []
        questions, hits, row = [], [0, 0], 0
        for place, step in enumerate(steps, start=1):
            if isinstance(step, Prompt):
                questions.append(self._arrives(pool, prompts, row, live, hits))
                row += 1
            else:
                o.check_owner(place, f"-{step}", step, live)
                questions.append(self._leaves(pool, prompts, step, live))
        questions.append(self._account(pool, hits))
        sequence = ",".join(f"+{step}" if isinstance(step, Prompt) else f"-{step}" for step in steps)
        return Exercise(sequence, self._given(), tuple(questions))

    def _given(self) -> tuple[str, ...]:
        usable, size = self.num_blocks - 1, self.block_size
        return (
            f"A pool of {counted(self.num_blocks, 'block')} of {size} tokens: block 0 is the null block, "
            f"{usable} can be had. Prompts are written as letters, one for each full block of text, and a number of "
            "tokens more that nobody else has: AB3 is block A, block B and 3 tokens.",
            "A full block is found by a hash of all text up to its end, so it is called by that: AB is block B behind "
            "block A, another than CB. A salt goes into the first block's hash, and so into all: x:AB is yet another. "
            "A block that is not full has no hash; it is written -.",
            "A prompt looks its blocks up from the front, as far as they are found, and never finds all its tokens: "
            "one at least is computed, or there is nothing to sample from. So hits end at the last whole block of its "
            "tokens less one. All else is computed at once, into blocks from the head of the free list; full ones get "
            "their hash. Answers are one token, which never needs a slot.",
            "Who leaves gives its references back, the end of its table first. A block that nobody holds goes to the "
            "free list: - to the head, a hashed one to the tail, where it can still be found. Its hash is forgotten "
            f"when it is taken. At first: {text_of(['-'] * usable)}. A second copy of AB is AB', and AB once the first "
            "is forgotten; look-ups find the first.",
        )

    def _parsed(self, explicit: str) -> list[Prompt | int]:
        steps: list[Prompt | int] = []
        for place, part in enumerate(o.words(explicit, ACCEPTED), start=1):
            if leaves := LEAVES.fullmatch(part):
                steps.append(int(leaves["owner"]))
                continue
            form = FORM.fullmatch(part)
            if form is None or len(form["text"]) > MOST_LETTERS:
                raise o.refused(place, part, ACCEPTED)
            tail = int(form["tail"] or 0)
            if tail >= self.block_size:
                raise o.refused(place, part, f"fewer than --block-size {self.block_size} tokens behind the letters")
            if not form["text"] and not tail:
                raise o.refused(place, part, ACCEPTED)
            steps.append(Prompt(form["text"], tail, form["salt"] or ""))
        return steps

    def _drawn(self, draws: Draws) -> list[Prompt | int]:
        """Who leaves must be there: so the exercise is played in a pool of its own while it is drawn."""
        prompts: list[Prompt] = []
        for _ in range(self.ops):
            prompts.append(self._prompt(draws, prompts))
        pool = NamedPool(self.num_blocks - 1, self.block_size, prompts)
        steps: list[Prompt | int] = []
        live: list[int] = []
        row = 0
        for _ in range(self.ops):
            if live and not draws.chance(self.percent_arrivals):
                leaves = draws.one_of(live)
                live.remove(leaves)
                pool.finish(leaves, prompts[leaves].tokens(self.block_size))
                steps.append(leaves)
                continue
            tokens = prompts[row].tokens(self.block_size)
            if pool.place(row, tokens, pool.find(row, tokens), tokens, 0):
                live.append(row)
            steps.append(prompts[row])
            row += 1
        return steps

    def _prompt(self, draws: Draws, earlier: list[Prompt]) -> Prompt:
        """Mostly the beginning of an earlier one, and then something else."""
        most = min(self.max_blocks, self.num_blocks - 1)
        wanted, text, salt = draws.between(1, most), "", ""
        if earlier and draws.chance(75):
            like = draws.one_of(earlier)
            text, salt = like.text[: draws.between(1, wanted)], like.salt
        elif draws.chance(self.percent_salted):
            salt = draws.one_of(SALTS)
        while len(text) < wanted:
            text += draws.one_of(LETTERS[: self.letters])
        tail = 0 if draws.chance(50) or wanted == self.num_blocks - 1 else draws.between(1, self.block_size - 1)
        return Prompt(text, tail, salt)

    def _arrives(self, pool: NamedPool, prompts: list[Prompt], row: int, live: list[int], hits: list[int]) -> Question:
        prompt, size = prompts[row], self.block_size
        tokens, before, cached = prompt.tokens(size), pool.free_list, pool.cached_names
        hit = pool.find(row, tokens)
        asked, shared = pool.asked(row, tokens, hit), pool.references
        working = looked_up(prompt, size, hit, cached)
        blocks = -(-tokens // size)
        table = None
        if pool.place(row, tokens, hit, tokens, 0):
            live.append(row)
            hits[0], hits[1] = hits[0] + hit, hits[1] + tokens
            table = pool.table(row, blocks)
            working += admitted(table, hit // size, shared, before)
        else:
            wanted = f"{counted(asked, 'free block')} wanted (hits that lie free among them)"
            working.append(f"{wanted}, {len(before)} free: refused")
        return Question(
            f"+{prompt}: sequence {row} arrives, {counted(tokens, 'token')}.",
            (
                Blank("hit_tokens", "tokens found in the cache", hit, str(hit)),
                Blank("table", "its block table, or refused", table, "refused" if table is None else text_of(table)),
                _free(pool),
            ),
            tuple(working),
        )

    def _leaves(self, pool: NamedPool, prompts: list[Prompt], row: int, live: list[int]) -> Question:
        tokens = prompts[row].tokens(self.block_size)
        table, held = pool.table(row, -(-tokens // self.block_size)), pool.references
        pool.finish(row, tokens)
        live.remove(row)
        return Question(f"-{row}: sequence {row} leaves.", (_free(pool),), tuple(left(table, held)))

    def _account(self, pool: NamedPool, hits: list[int]) -> Question:
        shared = {name: count for name, count in pool.references.items() if count > 1}
        shown = ", ".join(f"{name}: {count}" for name, count in shared.items()) or "none"
        every = ", ".join(f"{name}: {count}" for name, count in pool.references.items()) or "none"
        share = hits[0] / hits[1] if hits[1] else 0.0
        return Question(
            "The cache at the end.",
            (
                Blank("shared", "blocks that several sequences hold, and how many of them", shared, shown),
                Blank("hit_share", "of the tokens of those who were let in, found", share, f"{share:.1%}"),
            ),
            (f"references of hashed blocks that are held: {every}", f"{hits[0]} of {hits[1]} tokens were found"),
        )


def _free(pool: NamedPool) -> Blank:
    free = pool.free_list
    return Blank("free", "the free list afterwards, from the head", free, text_of(free))
