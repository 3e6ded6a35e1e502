# %% [markdown]
"""
# Lesson 6: prefix caching and copy-on-write

**You will be able to**

1. say when two sequences may share a block, and build the chain of hashes that decides it;
2. predict how many tokens a prompt will find, and why 2,407 tokens find 2,400;
3. tell what the block table makes possible from what goes looking for it: eight samples of one prompt, forked or not.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 15 | a block's identity is all that leads to it (exercise 6a) |
| 15 | sixteen requests on one prefix (exercise 6b) |
| 5 | free, and still found: least recently used |
| 10 | n = 8: copy-on-write (exercise 6c) |
| 5 | what to take home |

Exercises are graded by the cell in which you answer, and by nothing else: helpers and imports that an answer needs belong in it.

With pencil and paper: `pagesim quiz --topic prefix --seed 3`, and `-c` for the working.
"""

# %%
from dataclasses import replace

import numpy as np
from ipywidgets import interact

from pagesim.sim.config import PoolConfig, QueueConfig, RunConfig
from pagesim.sim.experiments.experiment import Run, makespan_s, tokens_per_s
from pagesim.sim.experiments.profile import reference_profile
from pagesim.sim.experiments.shared_prefix import hit_tokens, shared_run
from pagesim.sim.experiments.starved import alike, starved_run
from pagesim.sim.frames import framed
from pagesim.sim.gallery import draw
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.result import ServingResult
from pagesim.sim.serving.run import serve_all
from pagesim.sim.trace import HashIds, Trace

step_time = reference_profile().coefficients  # fitted to the note's Tesla T4

# %% [markdown]
"""
## When may two sequences share a block?

Not when its tokens are equal. The keys and values of a token depend on everything before it, so sixteen equal tokens in the
middle of two different conversations are not interchangeable. Two blocks are the same only if their tokens are *and all before
them are*.

Hence a chain: the hash of a block is made of the hash of the block before it, its own tokens, and extras that change what a
token means. One of the extras is a `salt`, mixed into the first block. Only full blocks are hashed.

**Exercise 6a (3 points).** Return the list of hashes of a prompt, one for each *full* block. Use Python's `hash` of a tuple.
"""


# %% exercise="6a"
def chain(tokens, block_size, salt=None):
    """One hash for each full block of `tokens`, each made of the one before it."""
    ### BEGIN SOLUTION
    hashes, parent = [], hash(("first", salt))
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = hash((parent, tuple(tokens[start : start + block_size])))
        hashes.append(parent)
    return hashes
    ### END SOLUTION


# %% test="6a" points=3
assert len(chain([1] * 2407, 16)) == 150
assert chain([1, 2, 3, 4], 2)[0] == chain([1, 2, 9, 9], 2)[0]
assert chain([1, 2, 3, 4], 2)[1] != chain([9, 9, 3, 4], 2)[1], "equal tokens behind different ones"
### BEGIN HIDDEN TESTS
import random

assert chain([1, 2, 3, 4], 2, salt="a") != chain([1, 2, 3, 4], 2, salt="b")
assert chain([1, 2, 3, 4], 2, salt="a")[1] != chain([1, 2, 3, 4], 2, salt="b")[1], "the salt reaches every later block"
assert chain([], 4) == [] and chain([1, 2, 3], 4) == [] and len(chain([1, 2, 3, 4], 4)) == 1
draws = random.Random(0)
for _ in range(200):
    first, other = ([draws.randint(0, 1) for _ in range(24)] for _ in range(2))
    equal = 0
    while equal < 24 and first[equal] == other[equal]:
        equal += 1
    shared = sum(a == b for a, b in zip(chain(first, 4), chain(other, 4), strict=True))
    assert shared == equal // 4, (first, other)
### END HIDDEN TESTS

# %% [markdown]
"""
## Sixteen requests on one prefix

A prompt of 2,407 tokens, a system prompt or a document that everybody asks about, comes sixteen times at once. Blocks of 16.

**Before you run it:** how many blocks is the prompt? How many tokens can the second request find? How many requests find them?
"""

# %%
on = shared_run([0.0] * 16, answer=16, step_time=step_time)
off = on.with_config(prefix_caching=False)
logs = {"cache on": on.serve(), "cache off": off.serve()}
for name, log in logs.items():
    print(f"{name:9} {makespan_s(log):5.2f} s, found by each: {hit_tokens(log)}")
print("blocks of one prompt:", -(-2407 // 16), "of which full:", 2407 // 16)
assert hit_tokens(logs["cache on"]) == [0] + [2400] * 15

# %% [markdown]
"""
150 full blocks are 2,400 tokens; the last seven lie in a block that is not full, and belong to whoever wrote it. The first
request finds nothing and computes; fifteen find all that can be found, even while it is being computed in the same step. Nothing
is copied: fifteen tables name the same 150 blocks, and each block counts who holds it.

How long the answers were the note does not say, 16 tokens are assumed here; what fifteen prefills take is the difference between
the two lines, which hardly depends on it.

**Exercise 6b (3 points).** How many tokens can a prompt of `prompt` tokens find in a cache that has all of it? Whole blocks only;
and never the whole prompt, since at least one token must be computed to know what comes next.
"""


# %% exercise="6b"
def findable(prompt, block_size):
    """The most tokens that a prompt finds."""
    ### BEGIN SOLUTION
    return (prompt - 1) // block_size * block_size
    ### END SOLUTION


# %% test="6b" points=3
assert findable(2407, 16) == 2400
assert findable(2400, 16) == 2384
### BEGIN HIDDEN TESTS
for prompt in (1, 15, 16, 17, 32, 33, 500, 512):
    trace = Trace(np.array([0.0, 50.0]), np.full(2, prompt), np.full(2, 2), HashIds.of([[0], [0]]), prompt)
    log = Run(trace, ServingConfig(prefix_caching=True, max_model_len=4096), step_time).serve()
    assert findable(prompt, 16) == hit_tokens(log)[1], prompt
assert [findable(prompt, 4) for prompt in (4, 5, 13)] == [0, 4, 12]
### END HIDDEN TESTS

# %% [markdown]
"""
A finer match is a what-if here: it may end inside a block, which is then copied before it is written to. Behind the prefix each
request now has 20 tokens of its own, so the block in which the prefix ends is full. In each line, what every request but the
first finds.
"""

# %%
ids = HashIds.of([[0, 1 + k] for k in range(16)])
tails = Trace(np.zeros(16), np.full(16, 2427), np.full(16, 16), ids, 2407)
for unit in (0, 8, 4, 1):
    log = Run(tails, replace(on.config, prefix_match_unit=unit), step_time).serve()
    print("whole blocks " if unit == 0 else f"units of {unit:2}  ", sorted(set(hit_tokens(log)[1:])),
          "blocks copied:", log.what_ifs.as_json().get("match"))  # fmt: skip

# %% [markdown]
"""
## It keeps

The ordinary case is a prefix that comes *again*. Asked twice, the first time cold, the second time warm:
"""

# %%
print("prompt   cold, ms   warm, ms")
for prompt in (128, 1024, 2048, 4096):
    ids = HashIds.of([[0], [0]])
    trace = Trace(np.array([0.0, 50.0]), np.full(2, prompt), np.full(2, 2), ids, prompt)
    log = Run(trace, ServingConfig(prefix_caching=True, token_budget=8192, max_model_len=8192), step_time).serve()
    cold, warm = 1e3 * (log.first_token_s - log.arrival_s)
    print(f"{prompt:6}   {cold:8.1f}   {warm:8.1f}")

# %% [markdown]
"""
These are times to the first token. Cold grows with the prompt, and faster than it: each token attends to all before it. Warm
grows by a few milliseconds where cold grows by a second: what is found is pointed at, and only read.

## Free, and still found

A sequence that ends gives its blocks back *with* their hashes. A free block that can still be found is a candidate for eviction,
not evicted: it is lost only when it is taken for something else. Blocks without a hash are taken first, then the hashed ones, the
longest free first: the least recently used.

So how large must the pool be? Ten documents of 2,048 tokens are asked about in turn, three rounds.

**Before you run it:** LRU, a loop over ten documents, and room for nine. What share is found?
"""


# %%
def in_turn(documents, num_blocks, evict="lru"):
    """Tokens found, of those asked for, when documents of 2,048 tokens are asked for in turn, three times."""
    count = 3 * documents
    ids = HashIds.of([[k % documents] for k in range(count)])
    trace = Trace(np.arange(count) * 2.0, np.full(count, 2048), np.full(count, 8), ids, 2048)
    rules = ServingConfig(
        num_blocks=num_blocks, prefix_caching=True, token_budget=8192, max_model_len=4096, evict=evict
    )
    totals = Run(trace, rules, step_time).serve().totals()
    return totals["prefix_hits_first"] / totals["prefix_queries_first"]


for documents_that_fit in (6, 8, 9, 10, 11, 12):
    blocks = documents_that_fit * 129 + 1
    found = {evict: f"{in_turn(10, blocks, evict):.0%}" for evict in ("lru", "optimal")}
    print(f"room for {documents_that_fit:2} of 10 documents: found", found)

# %% [markdown]
"""
LRU falls off a cliff: in a loop that is one too long, it always throws away what is needed next. (The 4% with room for nine
are the first eight blocks of a document: nine sequences have left nine blocks without a hash, which are taken first, and
a sequence gives its blocks back from the end, so its beginning is the last that is taken.) `optimal` (Belady's rule, which
only a trace can follow) shows what a look into the future would be worth.

And after a preemption? In the starved pool of lesson 5, with the cache on:
"""

# %%
starved = starved_run(step_time).with_config(prefix_caching=True).serve()
totals = starved.totals()
print(f"{len(starved.preemptions)} return, ask for {totals['prefix_queries_return']:,} tokens, "
      f"find {totals['prefix_hits_return']:,}: {totals['prefix_hits_return'] / totals['prefix_queries_return']:.0%}")  # fmt: skip

# %% [markdown]
"""
Hardly any. In a pool so short that it preempts, the blocks are taken by the time their owner returns.

## Eight samples of one prompt

The original design of PagedAttention: one prompt, eight answers. All eight tables name the blocks of the prompt, and a block that
somebody must write to is copied first: **copy-on-write**, as after `fork()`.

**Before you run it:** does an engine do that when you ask for `n=8`? Eight samples of a prompt of 1,447 tokens, cache off: as
one request, as eight requests, and forked (a what-if here, since vLLM 0.29 has no fork).
"""

# %%
rules = ServingConfig(token_budget=8192)
one = replace(alike(1, 1447, 200), n=np.array([8]))
served = {
    "one request, n = 8": Run(one, rules, step_time).serve(),
    "eight requests": Run(alike(8, 1447, 200), rules, step_time).serve(),
    "forked, copy-on-write": Run(one, replace(rules, fork="cow"), step_time).serve(),
}
for name, log in served.items():
    totals = log.totals()
    print(f"{name:22} {makespan_s(log):5.2f} s, {totals['scheduled_tokens']:6,} tokens computed, "
          f"{totals['peak_blocks_used']:4} blocks at most")  # fmt: skip
print(served["forked, copy-on-write"].what_ifs.as_json()["fork"])
assert served["one request, n = 8"].totals() == served["eight requests"].totals()

# %% [markdown]
"""
The first two lines are equal: the engine makes eight independent requests of it, each computes the prompt, and nothing is shared.
The table makes the sharing possible; something else has to go looking for it. The third line is what a fork would save.

**Exercise 6c (4 points).** Blocks that `n` samples hold at their longest, each with `prompt` tokens and `answer` of its own;
`block_size` tokens to a block. The last token of an answer needs no slot. `apart`: nothing is shared. `forked`: the full
blocks of the prompt are shared, and each sample has its own blocks from there on.
"""


# %% exercise="6c"
def apart(prompt, answer, n, block_size):
    """Blocks of n independent samples."""
    ### BEGIN SOLUTION
    return n * -(-(prompt + answer - 1) // block_size)
    ### END SOLUTION


def forked(prompt, answer, n, block_size):
    """Blocks of n samples that share the full blocks of their prompt."""
    ### BEGIN SOLUTION
    shared = prompt // block_size
    return shared + n * (-(-(prompt + answer - 1) // block_size) - shared)
    ### END SOLUTION


# %% test="6c" points=4
assert apart(1447, 200, 8, 16) == served["eight requests"].totals()["peak_blocks_used"]
assert forked(32, 17, 2, 16) == 4
### BEGIN HIDDEN TESTS
assert forked(1447, 200, 8, 16) == served["forked, copy-on-write"].totals()["peak_blocks_used"]
for prompt, answer, n in ((160, 40, 2), (161, 40, 3), (175, 2, 5), (100, 300, 8)):
    trace = replace(alike(1, prompt, answer), n=np.array([n]))
    for fork, count in (("none", apart), ("cow", forked)):
        log = Run(trace, replace(rules, fork=fork), step_time).serve()
        assert count(prompt, answer, n, 16) == log.totals()["peak_blocks_used"], (prompt, answer, n, fork)
### END HIDDEN TESTS

# %% [markdown]
"""
The pool over time, at the same scale, apart, forked, and apart with the cache on: sixteen prompts of 1,000 tokens, eight
samples of 200 each, in 3,000 blocks.
"""


# %%
def many_samples(fork, caching=False):
    """Sixteen prompts, eight samples each."""
    ids = HashIds.of([[k] for k in range(16)])
    trace = Trace(np.zeros(16), np.full(16, 1000), np.full(16, 200), ids, 1000, n=np.full(16, 8))
    rules = ServingConfig(num_blocks=3000, fork=fork, prefix_caching=caching, token_budget=8192)
    config = RunConfig(
        load=None, trace="this lesson", num_runs=1, allocators=("paged",), on_full="queue",
        pool=PoolConfig(tokens=48_000, origin="this lesson"), queue=QueueConfig(rules=rules),
    )  # fmt: skip
    return ServingResult.of(config, serve_all(config, trace))


ways = {"apart": many_samples("none"), "forked": many_samples("cow"), "apart, cache on": many_samples("none", True)}
for name, result in ways.items():
    a = result.allocators["paged"]
    print(f"{name:16} {a.output_tokens_per_s.mean:6,.0f} tokens/s, {a.preemptions} preemptions")
framed({name: draw(result, "account") for name, result in ways.items()}, "samples")

# %% [markdown]
"""
Prefix caching, which looks for equal beginnings wherever they come from, gets nearly all that the fork would: that is why an
engine can do without forks.

Turn the sizes: what does the cache save for a prompt of your length, asked as often as you like?
"""


# %%
@interact(prompt=(16, 4000, 16), requests=(2, 32))
def shown(prompt=2407, requests=16):
    """Time with the cache and without."""
    trace = Trace(
        np.zeros(requests), np.full(requests, prompt), np.full(requests, 16), HashIds.of([[0]] * requests), prompt
    )
    for caching in (True, False):
        log = Run(trace, replace(on.config, prefix_caching=caching), step_time).serve()
        print(f"cache {'on ' if caching else 'off'} {makespan_s(log):6.2f} s, {tokens_per_s(log):6,.0f} tokens/s")


# %% [markdown]
"""
## To take home

- A block's identity is the whole prefix that leads to it; a match ends on a block's boundary.
- Free is not forgotten; LRU forgets the longest free first, and a loop defeats it.
- The block table makes sharing possible. Whether anybody looks for it is another mechanism.

**For the next lesson:** so far a model of a machine made the predictions. How would you find out that it is wrong?
"""
