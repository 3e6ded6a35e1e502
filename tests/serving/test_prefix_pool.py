"""The prefix pool against the judge's, which has real blocks: the same requests come, grow, leave, and come back."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from stepper import Pool, Request

from pagesim.sim.serving.chains import HashChains
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.prefix_pool import PrefixPool
from pagesim.sim.trace import HashIds, Trace

ROWS = 14


class Both:
    """One pool of each kind, driven alike, and compared after every operation."""

    def __init__(self, usable, size, each, seed):
        rng = np.random.default_rng(seed)
        self.size = size
        self.prompt = rng.integers(1, 24, ROWS)
        self.ids = [rng.integers(0, 2, -(-int(p) // each)).tolist() for p in self.prompt]
        trace = Trace(
            np.zeros(ROWS), self.prompt, np.ones(ROWS, int), hash_ids=HashIds.of(self.ids), hash_block_tokens=each
        )
        self.ours = PrefixPool(usable, size, HashChains(trace, size))
        self.theirs = Pool(ServingConfig(num_blocks=usable + 1, block_size=size, prefix_caching=True))
        self.requests = [
            Request(row, 0.0, [(self.ids[row][j // each], j % each) for j in range(p)], int(p), 1, None, None)
            for row, p in enumerate(self.prompt.tolist())
        ]
        self.live: set[int] = set()
        self.done: set[int] = set()

    def admit(self, row, part):
        request = self.requests[row]
        known = len(request.tokens)
        found = self.theirs.lookup(request)
        hit = self.ours.find(row, known)
        assert hit == len(found) * self.size
        computed = hit + max(1, (known - hit) * part // 3)
        idle = sum(block.references == 0 for block in found)
        fits = -(-computed // self.size) - len(found) + idle <= len(self.theirs.free)
        assert self.ours.place(row, computed, hit, computed, 0) == fits
        if fits:
            for block in found:
                if block.references == 0:
                    self.theirs.free.remove(block)
                block.references += 1
            request.table = list(found)
            self._extend(request, computed)
            self.live.add(row)

    def grow(self, row, tokens):
        """The rest of the prompt first, then the answer."""
        request = self.requests[row]
        before = request.computed
        known = len(request.tokens)
        computed = min(known, before + tokens) if before < known else before + 1
        missing = self.ours.missing(before, computed)
        if missing > self.ours.free:
            return
        if computed > len(request.tokens):
            request.tokens.append(("output", row, computed))
            self.ours.take(missing)
        elif before < request.prompt_tokens or request.returns:
            self.ours.extend(row, before, computed)
        else:
            self.ours.take(missing)
        self._extend(request, computed)

    def _extend(self, request, computed):
        missing = -(-computed // self.size) - len(request.table)
        request.table += [self.theirs.allocate() for _ in range(missing)]
        request.computed = computed
        self.theirs.hash_full(request, computed)

    def leave(self, row, back):
        request = self.requests[row]
        self.theirs.release(request)
        (self.ours.preempt if back else self.ours.finish)(row, request.computed)
        request.computed, request.returns = 0, True
        self.live.discard(row)
        if not back:
            self.done.add(row)

    def check(self):
        self.ours.check()
        self.theirs.check([self.requests[row] for row in self.live])
        assert self.ours.free == len(self.theirs.free)


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(("admit", "grow", "grow", "grow", "preempt", "finish")), st.integers(0, ROWS - 1),
              st.integers(1, 9)),
    min_size=20, max_size=120,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.integers(6, 40), st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**32), OPERATIONS)
def test_like_real_blocks(usable, size, each, seed, operations):
    both = Both(usable, size, each, seed)
    for name, row, amount in operations:
        if name == "admit" and row not in both.live | both.done:
            both.admit(row, min(amount, 3))
        elif name == "grow" and row in both.live:
            both.grow(row, amount)
        elif name in ("preempt", "finish") and row in both.live:
            both.leave(row, name == "preempt")
        both.check()


def test_the_oldest_copy_is_found_until_it_is_taken():
    trace = Trace(np.zeros(4), np.full(4, 4), np.ones(4, int), hash_ids=HashIds.of([[1, 2]] * 4), hash_block_tokens=2)
    pool = PrefixPool(8, 2, HashChains(trace, 2))
    for row in range(3):  # a hit leaves a token to compute, so each fills a second block of its own
        hit = pool.find(row, 4)
        assert hit == (2 if row else 0)
        assert pool.place(row, 4, hit, 4, 0)
    assert pool.free == 8 - 4
    for row in range(3):
        pool.finish(row, 4)
    pool.check()
    assert pool.find(3, 4) == 2
    pool.take(4 + 1)  # all the plain blocks, and the copy that was freed first
    pool.check()
    assert pool.find(3, 5) == 4
    pool.take(2)
    pool.check()
    assert pool.find(3, 5) == 2
