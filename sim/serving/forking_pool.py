"""A pool whose blocks several sequences can hold: n samples of one prompt, forked and copied on write.

The original design of PagedAttention, as a what-if (`fork` "cow"); vLLM's v1 scheduler serves n samples as n requests.
One of a group computes the prompt, while seats are kept for all. Once it is computed the others fork: their tables name
the same blocks, which count who holds them. All write behind the prompt next: into new blocks if it fills its last one,
and else into that, which each copies before it writes, but for the last who still holds it. Whoever leaves gives back
what nobody else holds. A sample that is preempted comes back as a request by itself, with a prompt of its own; what it
shared stays with the others. Before the fork a group is preempted, and comes back, as one.

Left out: prefix caching beside it, and the time of a copy within the card's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pagesim.sim.serving.pool import CountingPool
from pagesim.sim.serving.requests import Requests
from pagesim.sim.serving.running import Running
from pagesim.sim.trace import Ints


@dataclass(slots=True)
class _Group:
    """`holders` of the prompt's `full` blocks; `writers`: rows that still hold its partly filled block."""

    full: int
    holders: set[int]
    writers: set[int] = field(default_factory=set)


class ForkingPool(CountingPool):
    """Blocks by count, with groups that share. `unforked`: seats kept for samples whose prompt is being computed.

    `due`: copies that must be made if all write who can. `spared_blocks`: named by forked tables and not taken;
    `blocks_copied` of them were taken later, for a copy."""

    def __init__(self, usable_blocks: int, block_size: int, requests: Requests, running: Running, n: Ints) -> None:
        """`n`, int64 [groups]: samples of each prompt; their rows come one behind the other."""
        super().__init__(usable_blocks, block_size)
        self._last_pass, self._running = requests.last_pass, running
        ends = n.cumsum().tolist()
        self.followers = {end - k: range(end - k + 1, end) for end, k in zip(ends, n.tolist(), strict=True) if k > 1}
        self.heads = [end - k for end, k in zip(ends, n.tolist(), strict=True)]
        self._group: dict[int, _Group] = {}  # by row
        self.unforked = self.due = 0
        self.forks = self.spared_blocks = self.spared_tokens = self.blocks_copied = 0

    def seats(self, row: int) -> int:
        """Sequences that come in with a request."""
        return 1 + len(self.followers.get(row, ()))

    def fork(self, row: int, prompt: int) -> range:
        """The prompt of `row` is computed: the rows that share it from now on, if any."""
        followers = self.followers.pop(row, range(0))
        if followers:
            rows = {row, *followers}
            group = _Group(prompt // self._size, rows, set(rows) if prompt % self._size else set())
            self._group.update(dict.fromkeys(rows, group))
            self.unforked -= len(followers)
            self.due += max(0, len(group.writers) - 1)
            self.shared_tokens += len(followers) * prompt
            self.forks += 1
            self.spared_blocks += len(followers) * -(-prompt // self._size)
            self.spared_tokens += len(followers) * prompt
        return followers

    def copies(self, row: int) -> int:
        """Blocks that the sequence must get, besides what `missing` says, to write its next token: 1 or 0."""
        group = self._group.get(row)
        return int(group is not None and row in group.writers and len(group.writers) > 1)

    def write(self, row: int, before: int) -> None:
        """It writes behind `before` tokens: a block that it shares is copied first."""
        if self.copies(row):
            self.free -= 1
            self.blocks_copied += 1
            self._stop_sharing(self._group[row], before)
        if row in self._group:
            self._group[row].writers.discard(row)

    def write_all(self) -> None:
        """Everybody writes who can."""
        if self.due:
            for row in list(self._group):
                self.write(row, self._running.step - self._running.base[row])

    def finish(self, row: int, computed: int) -> None:
        """Take back what nobody else holds."""
        group = self._group.pop(row, None)
        if group is None:
            super().finish(row, computed)
            return
        self.free += -(-computed // self._size) - group.full
        if row in group.writers:
            if len(group.writers) > 1:
                self.free -= 1
                self._stop_sharing(group, computed)
            group.writers.discard(row)
        group.holders.discard(row)
        if group.holders:
            self.shared_tokens -= group.full * self._size
        else:
            self.free += group.full

    def preempt(self, row: int, computed: int) -> None:
        """The same: it comes back by itself."""
        self.finish(row, computed)

    @property
    def shared_tails(self) -> int:
        """Slots of shared last blocks that nobody will ever fill, counted for each holder but one."""
        slots = 0
        for row, group in self._group.items():
            if row in group.writers and row != min(group.writers):
                slots += max(0, (group.full + 1) * self._size - self._last_pass[row])
        return slots

    def held(self, computed: Mapping[int, int]) -> int:
        """What is shared once."""
        groups = {id(group): group for group in self._group.values()}.values()
        twice = sum((len(group.holders) - 1) * group.full + max(0, len(group.writers) - 1) for group in groups)
        return super().held(computed) - twice

    def check(self) -> None:
        """Who holds what is counted right."""
        super().check()
        groups = {id(group): group for group in self._group.values()}.values()
        assert self.due == sum(max(0, len(group.writers) - 1) for group in groups), (self.due, groups)
        live = set(self._running.rows.values())
        for group in groups:
            assert group.writers <= group.holders == {r for r, g in self._group.items() if g is group} <= live, group
        assert self.unforked == sum(len(self.followers.get(row, ())) for row in live), (self.unforked, live)

    def _stop_sharing(self, group: _Group, prompt: int) -> None:
        """One less holds the partly filled block of a group."""
        self.due -= 1
        self.shared_tokens -= prompt % self._size
