# %% [markdown]
"""
# Lesson 2: two kinds of waste

**You will be able to**

1. tell internal from external waste, and say which cure each has;
2. name first fit, best fit, next fit, worst fit, the buddy system, compaction and paging, and what each gives up;
3. read from a figure whether a refusal means that a pool is full, or merely awkward.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 5 | the strip: sequences come and go in a pool of 64 slots |
| 15 | where a request lands: four fits (exercise 2a), free but unusable (exercise 2b) |
| 10 | two other bargains: the buddy system and compaction (exercise 2c) |
| 15 | the card's pool under high load: full, or awkward? |
| 5 | what to take home |

Exercises are graded by the cell in which you answer, and by nothing else: helpers and imports that an answer needs belong in it.

The words are those of *Operating Systems: Three Easy Pieces*, chapter 17 (free-space management). More exercises of this
kind, each with its working: `pagesim quiz --topic placement --seed 3`, then the same with `-c`.
"""

# %%
from IPython.display import display
from ipywidgets import interact

from pagesim.sim.allocators import Buddy, ExactFit, Paged, Pool
from pagesim.sim.config import PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.frames import framed
from pagesim.sim.gallery import draw
from pagesim.sim.notebook import table
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.sim.strips import strips

# %% [markdown]
"""
## A pool of 64 slots

A *slot* holds the keys and values of one token. An allocator gives a sequence slots when it arrives and takes them back when
it leaves. Five sequences arrive, of 16, 8, 20, 8 and 8 tokens; then number 1 and number 3 leave. Then one of 12 tokens wants
in.

**Before you run the next cell:** how many slots are free at that moment? Where? Who can take 12?
"""


# %%
def arrive(allocator, owner, tokens):
    """An oracle is told the final length too: here a sequence arrives at it."""
    return allocator.place(owner, tokens, tokens) if allocator.sees_final_length else allocator.place(owner, tokens)


pool = Pool(capacity_tokens=64, max_model_len=64, block_size=4)
allocators = {"first fit": ExactFit(pool), "buddy": Buddy(pool), "paged, blocks of 4": Paged(pool)}
moments = {"empty": strips(allocators)}
for owner, tokens in enumerate([16, 8, 20, 8, 8]):
    placed = {name: arrive(each, owner, tokens) for name, each in allocators.items()}
    moments[f"{owner} arrives, {tokens}"] = strips(allocators)
    print(f"sequence {owner} of {tokens:2} tokens:", placed)
for owner in (1, 3):
    for each in allocators.values():
        if owner in each.tokens:
            each.release(owner)
    moments[f"{owner} leaves"] = strips(allocators)
for name, each in allocators.items():
    print(
        f"{name:18} free {each.free_tokens:2}, the most that one request could get {each.largest_free_run:2};",
        "a request of 12:",
        arrive(each, 5, 12),
    )
moments["5 asks for 12"] = strips(allocators)

# %%
framed(moments, "moment")

# %% [markdown]
"""
Move the slider. First fit has 20 slots free and refuses 12: they lie in pieces of 8, 8 and 4. That is **external waste**: free,
and of no use to this request. Paging had 20 free too, and placed it: its blocks need not be neighbours. The buddy system could
not even place all of the first five: sequence 2 wants 20 slots and is given 32, of which 12 will never hold a token. That is
**internal waste**: to the allocator those slots are in use.

| | internal | external |
|---|---|---|
| what it is | owned, never filled | free, but not for this request |
| who sees it | nobody who asks the allocator | whoever is refused |
| cure | do not reserve for the worst case | do not need contiguity |
"""

# %% [markdown]
"""
## Which free run?

First fit takes the lowest run that is large enough; best fit the smallest; worst fit the largest; next fit the first at or
after the place where the last search ended. Of equals the lowest address wins.

**Exercise 2a (3 points).** Write the choice. `free` is a list of `(start, tokens)` in order of address. Return the start of
the chosen run, or `None`. `policy` is `"first"`, `"best"` or `"worst"`.
"""


# %% exercise="2a"
def choose(free, size, policy):
    """The start of the free run that a request of `size` gets under `policy`; None if no run holds it."""
    ### BEGIN SOLUTION
    enough = [(start, tokens) for start, tokens in free if tokens >= size]
    if not enough:
        return None
    if policy == "best":
        return min(enough, key=lambda run: (run[1], run[0]))[0]
    if policy == "worst":
        return min(enough, key=lambda run: (-run[1], run[0]))[0]
    return enough[0][0]
    ### END SOLUTION


# %% test="2a" points=3
free = [(16, 8), (44, 8), (60, 4)]
assert choose(free, 4, "first") == 16
assert choose(free, 4, "best") == 60
assert choose(free, 12, "worst") is None
### BEGIN HIDDEN TESTS
import random


def same_as_the_library(policy, seed):
    draws, allocator, alive = random.Random(seed), ExactFit(Pool(200, 200, 1), policy), []
    for owner in range(300):
        if alive and draws.random() < 0.45:
            allocator.release(alive.pop(draws.randrange(len(alive))))
        size = draws.randint(1, 40)
        free = [(run.start, run.tokens) for run in allocator.free_extents()]
        expected = choose(sorted(free), size, policy)
        if allocator.place(owner, size, size):
            alive.append(owner)
            (run,) = allocator.extents(owner)
            assert run.start == expected, (policy, seed, free, size)
        else:
            assert expected is None, (policy, seed, free, size)


for policy in ("first", "best", "worst"):
    for seed in range(5):
        same_as_the_library(policy, seed)
### END HIDDEN TESTS

# %% [markdown]
"""
**Exercise 2b (2 points).** How many slots are wasted outside, from the point of view of a request of `size` tokens? All that
is free, if that is enough in total and yet no run holds the request; else none.
"""


# %% exercise="2b"
def external_waste(free, size):
    """Slots that are free, enough for `size` in total, and unusable for it."""
    ### BEGIN SOLUTION
    total = sum(tokens for _, tokens in free)
    fits = any(tokens >= size for _, tokens in free)
    return 0 if fits or total < size else total
    ### END SOLUTION


# %% test="2b" points=2
assert external_waste([(16, 8), (44, 8), (60, 4)], 12) == 20
assert external_waste([(16, 8), (44, 8), (60, 4)], 8) == 0
### BEGIN HIDDEN TESTS
assert external_waste([(0, 3), (9, 3)], 7) == 0, "less is free than was asked: the pool is full, not awkward"
assert external_waste([], 1) == 0
assert external_waste([(0, 3), (9, 4)], 7) == 7
### END HIDDEN TESTS

# %% [markdown]
"""
## Four fits, the buddy system, compaction, paging

The same arrivals for all of them: lengths with a median of 180 tokens and a long tail, 1.4 times as many as a pool of 65,536
slots can take. `exact-fit` is told each length beforehand, which no real server can know: so it wastes nothing inside, and
what it loses it loses outside.

**Before you run it:** which fit will refuse most? What will compaction be worth, and what will it cost?
"""

# %%
FITS = ("exact-fit:first", "exact-fit:best", "exact-fit:next", "exact-fit:worst")
config = RunConfig(
    load="high", allocators=(*FITS, "exact-fit:first:compact", "buddy", "paged"), num_runs=1,
    pool=PoolConfig(tokens=65_536), workload=WorkloadConfig(num_requests=3000),
)  # fmt: skip
small = RunResult.of(config, run(config))
table(small)

# %% [markdown]
"""
Compare `at refusal: occupied` with `free but unusable` row by row, and read the sentences under the table.

- Worst fit leaves the most space unusable: it always breaks the largest run.
- Compaction refuses only when hardly anything is left: and see how many tokens it moved for that, of keys and values that a
  running model is reading.
- The buddy system wastes on the inside what the fits waste on the outside.
- Paging refuses when the pool is full, and wastes inside no more than the tail of a last block.
"""

# %%
by_name = small.allocators
unusable = {name: by_name[name].at_refusal.unusable_mean for name in by_name}
assert max(unusable, key=unusable.get) == "exact-fit:worst"
assert by_name["exact-fit:first:compact"].moved_tokens > 1_000_000
assert by_name["buddy"].internal.mean > 10 * by_name["paged"].internal.mean
draw(small, "refusals")

# %% [markdown]
"""
**Exercise 2c (3 points).** Three allocators, one sequence of `tokens` tokens: how many slots does it own? `reserved` gives
`max_model_len`; `buddied` the least power of two that is enough; `paged` whole blocks.
"""


# %% exercise="2c"
def reserved(tokens, max_model_len):
    """Slots owned under a reservation of the maximum."""
    ### BEGIN SOLUTION
    return max_model_len
    ### END SOLUTION


def buddied(tokens):
    """Slots owned under the buddy system."""
    ### BEGIN SOLUTION
    return 1 << (tokens - 1).bit_length()
    ### END SOLUTION


def paged(tokens, block_size):
    """Slots owned under paging."""
    ### BEGIN SOLUTION
    return -(-tokens // block_size) * block_size
    ### END SOLUTION


# %% test="2c" points=3
assert reserved(200, 2048) == 2048
assert buddied(200) == 256
assert paged(200, 16) == 208
### BEGIN HIDDEN TESTS
for tokens in range(1, 600):
    buddy, blocks = Buddy(Pool(1024, 1024, 16)), Paged(Pool(1024, 1024, 16))
    buddy.place(0, tokens, tokens)
    blocks.place(0, tokens)
    assert buddied(tokens) == buddy.owned(0), tokens
    assert paged(tokens, 16) == blocks.owned(0), tokens
    assert paged(tokens, 16) - tokens <= 15
assert reserved(1, 77) == 77
### END HIDDEN TESTS

# %% [markdown]
"""
## The card's pool: full, or merely awkward?

Now the pool of a real card: 929,024 slots at 12 KiB each, a Tesla T4 with a model of half a billion parameters. Some 43,000
requests, 1.4 times what it can hold.

**Before you run it, write down:** who refuses more *requests*, the oracle or paging? Who refuses more *tokens*? How full is the
pool when each says no?
"""

# %%
config = RunConfig(load="high", allocators=("exact-fit", "paged"), num_runs=1)
high = RunResult.of(config, run(config))
table(high)

# %%
exact, blocks = high.allocators["exact-fit"], high.allocators["paged"]
assert round(exact.occupied.mean, 2) == 0.87 and round(blocks.occupied.mean, 2) == 0.95
assert blocks.refused_share.mean > exact.refused_share.mean
assert blocks.at_refusal.share_awkward < 0.01 < 0.99 < exact.at_refusal.share_awkward
draw(high, "refusals")

# %% [markdown]
"""
Paging refuses **more** requests, and that is no contradiction. It stands at 95% in the mean, and whenever it refuses the pool
is full. The oracle stands at 87%, and says no with free memory in hand, in pieces. Whom does it turn away?
"""

# %%
draw(high, "refused-by-length")

# %% [markdown]
"""
The long ones. A request of a few hundred tokens finds a piece nearly always, so the oracle refuses few *requests*; compare the
row `refused, of tokens` in the table. The difference between the two is not how often each says no, but whether a refusal means
that the pool is full, or merely awkward.

Turn the load. From where on does the oracle begin to refuse, and how full is the pool then?
"""


# %%
def at_load(load):
    """A smaller pool, so that the slider answers at once."""
    config = RunConfig(
        load=str(load), allocators=("exact-fit", "paged"), num_runs=1, pool=PoolConfig(tokens=65_536),
        workload=WorkloadConfig(num_requests=2000),
    )  # fmt: skip
    return RunResult.of(config, run(config))


@interact(load=(0.6, 2.0, 0.1))
def shown(load=1.0):
    """The table at one load."""
    display(table(at_load(load)))


# %% [markdown]
"""
The same without a kernel behind it: where the pool's memory was, at five loads.
"""

# %%
framed({f"{load:g}": draw(at_load(load), "account") for load in (0.6, 0.9, 1.1, 1.4, 1.8)}, "load")

# %% [markdown]
"""
## To take home

- Internal waste is owned and never filled; external waste is free and in pieces. Each allocator trades one for the other, and
  paging bounds the first by one block and does away with the second.
- Compaction is a cure that must move what is in use.
- Ask of every refusal how full the pool was.

**For the next lesson:** if blocks may lie anywhere, how does anybody find the 700th token of a sequence?
"""
