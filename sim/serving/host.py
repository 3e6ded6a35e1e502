"""Host memory behind the pool: where the blocks of a preempted sequence go when it is swapped out, not recomputed.

The operating system's answer, as a what-if (`preempt` "swap"). A victim's blocks, as many as its computed tokens fill,
the last one whole, are copied out over a link, those that it shares with others too; it keeps what it computed. When
its turn comes, all its blocks are copied into free ones, and it goes on where it was. With prefix caching it asks for
nothing then: what it brings back is its own. If there is no room on the host, the victim is recomputed as in vLLM.
"""

from __future__ import annotations

from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.running import Running
from pagesim.sim.serving.steptime import StepTime


class Host:
    """`tokens`: by row, what those who were swapped out have computed. `peak_blocks`: the most that lay here.

    `link_s`: how long the link was busy. `refused`: victims for whom there was no room.
    """

    def __init__(self, config: ServingConfig, running: Running) -> None:
        assert config.host_blocks and config.bytes_per_token and config.host_bandwidth_bytes_per_s
        self.tokens: dict[int, int] = {}
        self.blocks_out = self.blocks_in = self.peak_blocks = self.swapped = self.refused = 0
        self.link_s = 0.0
        self._running, self._size, self._room = running, config.block_size, config.host_blocks
        self._block_s = config.block_size * config.bytes_per_token / config.host_bandwidth_bytes_per_s
        self._copied = (0, 0)  # (step, blocks copied in it)

    def put(self, row: int, computed: int) -> bool:
        """Swap out; False if there is no room."""
        blocks = -(-computed // self._size)
        if self.blocks_held + blocks > self._room:
            self.refused += 1
            return False
        self.tokens[row] = computed
        self.swapped += 1
        self.blocks_out += blocks
        self.peak_blocks = max(self.peak_blocks, self.blocks_held)
        self._copy(blocks)
        return True

    def take(self, row: int) -> None:
        """Swap in, now that there are blocks."""
        blocks = -(-self.tokens.pop(row) // self._size)
        self.blocks_in += blocks
        self._copy(blocks)

    @property
    def blocks_held(self) -> int:
        """Blocks that lie here now."""
        return self.blocks_out - self.blocks_in

    def step_s(self) -> float:
        """How long the copies of the step take that is being scheduled."""
        step, blocks = self._copied
        return blocks * self._block_s if step == self._running.step else 0.0

    def check(self) -> None:
        """Assert that what lies here belongs to somebody who waits, and fits."""
        held = sum(-(-tokens // self._size) for tokens in self.tokens.values())
        assert held == self.blocks_held <= self._room, (held, self.blocks_held, self._room)
        assert not self.tokens.keys() & set(self._running.rows.values()), (self.tokens, self._running.rows)

    def _copy(self, blocks: int) -> None:
        step, before = self._copied
        now = self._running.step
        self._copied = now, blocks + (before if step == now else 0)
        self.link_s += blocks * self._block_s


class SwappingStep:
    """A step-time model plus the link: a step lasts as it would, and then as long as its copies out and in take.

    Nothing overlaps: the blocks of a victim are needed by somebody else in the very step that preempts it, and a
    sequence that returns computes in the very step that brings it back.
    """

    def __init__(self, step_time: StepTime, host: Host) -> None:
        self._step_time, self._host = step_time, host

    def seconds(self, tokens: int, prefill_pairs: int, decode_contexts: int, sequences: int) -> float:
        """Both, one after the other."""
        return self._step_time.seconds(tokens, prefill_pairs, decode_contexts, sequences) + self._host.step_s()

    def growth_s(self, sequences: int) -> float:
        """While nothing but decoding happens nothing is copied."""
        return self._step_time.growth_s(sequences)
