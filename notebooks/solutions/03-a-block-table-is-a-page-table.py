# %% [markdown]
"""
# Lesson 3: a block table is a page table

**You will be able to**

1. translate a position in a sequence into a slot of the pool, and say what that costs;
2. name what was borrowed from virtual memory, and four things that were not;
3. read from response times what others have asked, and close that channel.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 15 | the translation (exercise 3a) and the size of the table (exercise 3b) |
| 15 | where the analogy stops: hardware, faults and overcommitment, the page's size, protection |
| 15 | a timing channel: seen, used, closed (exercises 3c, 3d) |
| 5 | what to take home |

Exercises are graded by the cell in which you answer, and by nothing else: helpers and imports that an answer needs belong in it.

With pencil and paper: `pagesim quiz --topic paging --seed 3`, and `-c` for the working.
"""

# %%
import numpy as np
from ipywidgets import interact

from pagesim.sim.allocators import Paged, Pool
from pagesim.sim.blocktable import table_bytes, table_reads
from pagesim.sim.experiments.experiment import Run
from pagesim.sim.experiments.profile import reference_profile
from pagesim.sim.frames import framed
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.strips import strips
from pagesim.sim.trace import HashIds, Labels, Trace

# %% [markdown]
"""
## The translation

A page table maps a page of a process to a frame of memory. A **block table** maps the blocks of a sequence to blocks of the pool.
Three sequences arrive, one leaves, one grows into the gap.

**Before you run it:** sequence 2 gets more blocks when it grows. Which ones can they be?
"""

# %%
paged = Paged(Pool(capacity_tokens=64, max_model_len=64, block_size=4))
moments = {}
for what, owner, tokens in (
    ("arrives", 0, 10),
    ("arrives", 1, 14),
    ("arrives", 2, 7),
    ("leaves", 0, 0),
    ("grows to", 2, 22),
):
    if what == "arrives":
        paged.place(owner, tokens)
    elif what == "leaves":
        paged.release(owner)
    else:
        paged.grow(owner, tokens)
    moments[f"{owner} {what} {tokens or ''}"] = strips({"pool": paged})
    print(f"{owner} {what:8} {tokens or '':2}  block tables: {paged.block_tables}")

# %%
framed(moments, "moment")

# %% [markdown]
"""
Any that are free: they need not be neighbours, nor in order. Position 0 of sequence 2 has not moved, and nothing was copied.

**Exercise 3a (3 points).** Find the slot of a position: block *i div B* of the sequence, wherever it lies, and *i mod B* within.
"""


# %% exercise="3a"
def slot(block_table, position, block_size):
    """The slot of the pool that holds `position` of the sequence."""
    ### BEGIN SOLUTION
    return block_table[position // block_size] * block_size + position % block_size
    ### END SOLUTION


# %% test="3a" points=3
assert slot([7, 2], 0, 4) == 28
assert slot([7, 2], 5, 4) == 9
### BEGIN HIDDEN TESTS
for owner, tokens in paged.tokens.items():
    addresses = [address for run in paged.extents(owner) for address in range(run.start, run.start + run.tokens)]
    found = [slot(paged.block_tables[owner], position, 4) for position in range(tokens)]
    assert found == addresses[:tokens], owner
assert [slot([3], position, 16) for position in range(16)] == list(range(48, 64))
### END HIDDEN TESTS

# %% [markdown]
"""
**Exercise 3b (2 points).** The table is small, and is read often. How many bytes is it, at 4 bytes an entry? And how many entries
are read in *one* decode step, if a kernel looks one up for every position, in every layer, for every KV head?
"""


# %% exercise="3b"
def bytes_of_table(tokens, block_size):
    """Bytes of the block table of a sequence."""
    ### BEGIN SOLUTION
    return -(-tokens // block_size) * 4
    ### END SOLUTION


def reads_of_table(tokens, layers, kv_heads):
    """Entries that one decode step reads."""
    ### BEGIN SOLUTION
    return tokens * layers * kv_heads
    ### END SOLUTION


# %% test="3b" points=2
assert bytes_of_table(2048, 16) == 512
assert reads_of_table(2000, layers=24, kv_heads=2) == 96_000
### BEGIN HIDDEN TESTS
for tokens in (1, 15, 16, 17, 2048, 100_000):
    assert bytes_of_table(tokens, 16) == table_bytes(tokens, 16), tokens
    assert reads_of_table(tokens, 32, 8) == table_reads(tokens, 32, 8), tokens
### END HIDDEN TESTS

# %%
cache_bytes = 2048 * 12_288
print(f"2,048 tokens: table {bytes_of_table(2048, 16)} bytes, cache {cache_bytes:,} bytes: "
      f"one part in {cache_bytes // bytes_of_table(2048, 16):,}")  # fmt: skip
grown = Paged(Pool(capacity_tokens=4096, max_model_len=2048, block_size=16))
grown.place(0, 1)
asked = 0
for tokens in range(2, 2001):
    before = grown.free_tokens
    grown.grow(0, tokens)
    asked += grown.free_tokens < before
print(
    f"growing from 1 to 2,000 tokens took {asked} blocks; the last step alone reads {reads_of_table(2000, 24, 2):,} entries"
)
assert asked == 124

# %% [markdown]
"""
Written once in sixteen steps, read 96,000 times in one: the structure in the hot path is read-only.

## Where the analogy stops

**There is no hardware.** A processor translates in silicon and keeps recent translations in a TLB; a program never knows. Here
your exercise 3a *is* the translation: two integer operations and a load, written into the attention kernel. Lesson 4 reads it.

**There is no fault, and nothing is overcommitted.** An operating system promises more memory than there is, and fetches a page
when it is touched. What happens here?
"""

# %%
full = Paged(Pool(capacity_tokens=64, max_model_len=64, block_size=16))
print("placed:", [full.place(owner, 16) for owner in range(4)])
print("one token more for sequence 0:", full.grow(0, 17))
print("and nothing has changed:", full.block_tables[0], full.tokens[0])
print("a fifth sequence:", full.place(4, 1))

# %% [markdown]
"""
`False`: an answer, not a fault. There is no lower level to fetch from, so the problem goes up, to a scheduler (lesson 5). The
virtual-memory trick was borrowed; the virtual part of it was not.

**The page is counted in tokens, not in bytes.** A block of 16 tokens is 16 x 12,288 bytes = 192 KiB on the model of lesson 1, in
24 pieces of 8 KiB, one in the tensor of each layer.

**Nothing is protected.** A page table keeps processes out of each other's memory. Every block table lives in one process, and
sharing is the point:
"""

# %%
assert 16 * 12_288 == 192 * 1024 and 192 // 24 == 8
mine, yours = [5, 9, 2], [5, 9, 7]  # two tables that name the same two blocks
print("my position 20:", slot(mine, 20, 16), "  your position 20:", slot(yours, 20, 16))
print("my position 40:", slot(mine, 40, 16), "  your position 40:", slot(yours, 40, 16))

# %% [markdown]
"""
No bit in a table says who may read the block. What keeps sequences apart is only that whoever fills in the tables is right.

## A timing channel

A prefix cache (lesson 6) lets a prompt find the blocks of an earlier one that begins with the same text. So an answer's first token
comes sooner if *somebody* has asked the same before. Others ask four times, one after the other; then you ask.

**Before you run it:** what can you learn, and from what?
"""

# %%
step_time = reference_profile().coefficients
RULES = ServingConfig(prefix_caching=True, max_model_len=4096)


def first_token_ms(prompts, salts=None):
    """Milliseconds to the first token of each request. Equal numbers in `prompts` are equal texts of 2,000 tokens."""
    count = len(prompts)
    labels = None if salts is None else Labels.of(salts)
    trace = Trace(
        np.arange(count) * 10.0, np.full(count, 2000), np.full(count, 2), HashIds.of([[p] for p in prompts]), 2000,
        cache_salt=labels,
    )  # fmt: skip
    log = Run(trace, RULES, step_time).serve()
    return (1e3 * (log.first_token_s - log.arrival_s)).round(1).tolist()


asked_before = [3, 8, 3, 12]
probes = list(range(15))
times = first_token_ms(asked_before + probes)[len(asked_before) :]
print(dict(zip(probes, times, strict=True)))

# %% [markdown]
"""
**Exercise 3c (3 points).** You see nothing but the times of your own probes. Which texts had been asked before? Return the set of
probes that came back quickly. You do not know the machine: find the gap in the times yourself. At least one probe was asked before,
and at least one was not.
"""


# %% exercise="3c"
def overheard(probes, times):
    """The probes whose text somebody had asked before."""
    ### BEGIN SOLUTION
    middle = (min(times) + max(times)) / 2
    return {probe for probe, time in zip(probes, times, strict=True) if time < middle}
    ### END SOLUTION


# %% test="3c" points=3
assert overheard(probes, times) == {3, 8, 12}
### BEGIN HIDDEN TESTS
import random

for seed in range(5):
    secret = set(random.Random(seed).sample(range(15), 4))
    heard = first_token_ms(sorted(secret) + probes)[4:]
    assert overheard(probes, heard) == secret, seed
assert overheard([7, 9], [50.0, 3.0]) == {9}
assert overheard([4, 5, 6, 7], [11.0, 12.0, 90.0, 11.5]) == {4, 5, 7}, "most of them had been asked before"
### END HIDDEN TESTS

# %% [markdown]
"""
A request may carry a `cache_salt`, which is mixed into the hash of its first block: requests with different salts never match.

**Exercise 3d (2 points).** `tenants` says who sends each request. Return a salt for each request (a text or None), so that no tenant
can overhear another, while each still finds what it asked itself before.
"""


# %% exercise="3d"
def salts_for(tenants):
    """One salt for each request."""
    ### BEGIN SOLUTION
    return [f"tenant {tenant}" for tenant in tenants]
    ### END SOLUTION


# %% test="3d" points=2
tenants = ["victim"] * len(asked_before) + ["me"] * len(probes)
times = first_token_ms(asked_before + probes, salts_for(tenants))[len(asked_before) :]
assert max(times) - min(times) < 1
### BEGIN HIDDEN TESTS
prompts, who = [1, 1, 1, 1, 2, 2], ["a", "a", "b", "b", "a", "c"]
a1, a2, b1, b2, a3, c1 = first_token_ms(prompts, salts_for(who))
assert a2 < a1 / 2 and b2 < b1 / 2, "a tenant finds what it asked itself"
assert abs(b1 - a1) < 1 and abs(c1 - a3) < 1, "and nothing of the others"
### END HIDDEN TESTS

# %% [markdown]
"""
What does it cost? Everybody shares less. Tenants ask the same prompt ten times each; turn the number of tenants:
"""


# %%
def mean_ms(tenants, is_salted):
    """Mean time to the first token, when each tenant asks the same prompt ten times."""
    who = [str(k % tenants) for k in range(10 * tenants)]
    return float(np.mean(first_token_ms([0] * len(who), who if is_salted else None)))


@interact(tenants=(1, 10))
def shown(tenants=4):
    """With one salt for each tenant, and with none."""
    print(
        f"shared by all: {mean_ms(tenants, False):6.1f} ms    a salt for each tenant: {mean_ms(tenants, True):6.1f} ms"
    )


assert mean_ms(8, True) > mean_ms(8, False)

# %% [markdown]
"""
## To take home

| | virtual memory | a paged cache |
|---|---|---|
| unit | page, 4 KiB | block, 16 tokens |
| table | for each process | for each sequence |
| who translates | hardware, with a TLB | the attention kernel, by hand |
| not there | a fault; fetched from below | `False`; the scheduler decides |
| promises | more than there is | nothing |
| table as a fence | yes | no: sharing is the point |

What transferred is the data structure, not the machinery around it.

**For the next lesson:** a load and two integer operations for every position, in the hottest kernel of all. Why is that affordable?
"""
