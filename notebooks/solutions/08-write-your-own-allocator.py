# %% [markdown]
"""
# Lesson 8: write your own allocator, and enter it

**You will be able to**

1. write an allocator in about 30 lines and have it checked, slot by slot;
2. enter it by its path, so that it stands in every table and figure beside the others;
3. judge it by waste, by refusals and by what it costs when a pool runs dry.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 10 | what an allocator is: a class with eight members |
| 10 | one that is there: two halves |
| 20 | your own (exercises 8a, 8b) |
| 10 | the contest |

Exercises are graded by the cell in which you answer, and by nothing else: helpers and imports that an answer needs belong in it.

Everything that an allocator must keep is in the documentation, on the page *Allocators*. From a shell, an allocator in
`mine.py` of the working folder enters with `pagesim run --allocators reservation,paged,mine:Mine`.
"""

# %%
import importlib
import sys

from IPython.display import display
from ipywidgets import interact

from pagesim.sim.allocators import Paged, Pool, Reservation
from pagesim.sim.config import PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.frames import framed
from pagesim.sim.gallery import draw
from pagesim.sim.notebook import table
from pagesim.sim.result import RunResult
from pagesim.sim.run import run
from pagesim.sim.strips import strips

# %% [markdown]
"""
## The contract

| member | |
|---|---|
| `place(owner, tokens)` | make room for a new owner; `False`, and nothing has changed, if there is none |
| `grow(owner, tokens)` | the owner is to hold `tokens` in all; the same |
| `release(owner)` | take everything back |
| `owned(owner)` | slots that it owns |
| `extents(owner)`, `free_extents()` | the addresses: `Extent(start, tokens)`; all together they tile the pool |
| `largest_free_run` | the most that one request could be given now |
| `free_tokens`, `tokens[owner]` | kept up to date by you, in every operation |

`check()`, which you inherit, asserts that every slot is owned once or free, and none is lost. A subclass of `Allocator` sees the
tokens of now; one of `OracleAllocator` is also told the final length.

Here is one between reservation and paging: slots of half the longest sequence. A request gets one, and a second when it outgrows
it. The cell writes it into a file, since it is entered by its path.
"""

# %%
# %%writefile halves.py
from pagesim.sim.allocators import Allocator, Extent


class Halves(Allocator):
    """The pool in slots of half the longest sequence; a request gets one, and a second when it outgrows it."""

    def __init__(self, pool):
        super().__init__(pool)
        self.half = -(-pool.max_model_len // 2)
        self.slots = list(range(pool.capacity_tokens // self.half))
        self.table = {}

    @property
    def largest_free_run(self):
        return len(self.slots) * self.half or self.free_tokens

    def place(self, owner, tokens):
        self.table[owner] = []
        if self.grow(owner, tokens):
            return True
        del self.table[owner]
        return False

    def grow(self, owner, tokens):
        missing = -(-tokens // self.half) - len(self.table[owner])
        if missing > len(self.slots):
            return False
        for _ in range(missing):
            self.table[owner].append(self.slots.pop())
            self.free_tokens -= self.half
        self.tokens[owner] = tokens
        return True

    def release(self, owner):
        del self.tokens[owner]
        slots = self.table.pop(owner)
        self.slots += slots
        self.free_tokens += len(slots) * self.half

    def owned(self, owner):
        return len(self.table[owner]) * self.half

    def extents(self, owner):
        return [Extent(slot * self.half, self.half) for slot in self.table[owner]]

    def free_extents(self):
        tail = self.pool.capacity_tokens % self.half
        runs = [Extent(slot * self.half, self.half) for slot in self.slots]
        return [*runs, Extent(self.pool.capacity_tokens - tail, tail)] if tail else runs


# %% [markdown]
"""
**Before you run it:** four sequences of 10, 40, 100 and 20 tokens in a pool of 256 slots, the longest allowed 128. What will the
strip look like under reservation, under halves, under paging?
"""

# %%
sys.modules.pop("halves", None)
sys.path[:0] = [""] if "" not in sys.path else []
importlib.invalidate_caches()
Halves = importlib.import_module("halves").Halves
pool = Pool(capacity_tokens=256, max_model_len=128, block_size=16)
allocators = {"reservation": Reservation(pool), "halves": Halves(pool), "paged": Paged(pool)}
moments = {}
for owner, tokens in enumerate([10, 40, 100, 20]):
    for each in allocators.values():
        each.place(owner, tokens)
        each.check()
    moments[f"{owner} arrives, {tokens}"] = strips(allocators)
framed(moments, "moment")

# %% [markdown]
"""
And in the experiment, entered by its path, with the account of the pool asserted as it goes (`check=True`, for few requests: it is
slow):
"""


# %%
def contest(*names, load="1.2", growth="token", requests=500, check=False):
    """The same arrivals for all of `names`; requests start as their prompts and grow."""
    config = RunConfig(
        load=load, allocators=names, growth=growth, num_runs=1, pool=PoolConfig(tokens=32_768),
        workload=WorkloadConfig(num_requests=requests),
    )  # fmt: skip
    return RunResult.of(config, run(config, check=check))


first = contest("reservation", "halves:Halves", "paged", requests=150, check=True)
table(first)

# %%
draw(first, "account")

# %% [markdown]
"""
Halves stand between the two, and the waste is where you would look for it. (`dropped` are those whom paging, or halves, had to end
early because the pool ran dry when they wanted to grow.)

## Your own

**Exercise 8a (6 points).** Reservation asks for the longest sequence there may be; paging for one block at a time. Try the way of a
growing array: a request gets a **run of blocks, and doubles what it owns** each time that it outgrows it. So it owns 1, 2, 4, 8, ...
blocks of `pool.block_size`, from anywhere in the pool, but never more than `pool.max_model_len` needs. Write the class `Doubling`
into `mine.py`; keep the first line of the cell.
"""

# %% exercise="8a"
# %%writefile mine.py
from pagesim.sim.allocators import Allocator, Extent


class Doubling(Allocator):
    """Blocks from anywhere; a request that outgrows what it owns gets as much again."""

    ### BEGIN SOLUTION
    def __init__(self, pool):
        super().__init__(pool)
        self.size = pool.block_size
        self.most = -(-pool.max_model_len // self.size)
        self.free = list(range(pool.capacity_tokens // self.size))
        self.table = {}

    @property
    def largest_free_run(self):
        return len(self.free) * self.size or self.free_tokens

    def place(self, owner, tokens):
        self.table[owner] = []
        if self.grow(owner, tokens):
            return True
        del self.table[owner]
        return False

    def grow(self, owner, tokens):
        wanted = 1 << (-(-tokens // self.size) - 1).bit_length()
        missing = min(wanted, self.most) - len(self.table[owner])
        if missing > len(self.free):
            return False
        for _ in range(missing):
            self.table[owner].append(self.free.pop())
            self.free_tokens -= self.size
        self.tokens[owner] = tokens
        return True

    def release(self, owner):
        del self.tokens[owner]
        blocks = self.table.pop(owner)
        self.free += blocks
        self.free_tokens += len(blocks) * self.size

    def owned(self, owner):
        return len(self.table[owner]) * self.size

    def extents(self, owner):
        return [Extent(block * self.size, self.size) for block in self.table[owner]]

    def free_extents(self):
        tail = self.pool.capacity_tokens % self.size
        runs = [Extent(block * self.size, self.size) for block in self.free]
        return [*runs, Extent(self.pool.capacity_tokens - tail, tail)] if tail else runs

    ### END SOLUTION


# %% test="8a" points=6
sys.modules.pop("mine", None)
importlib.invalidate_caches()
Doubling = importlib.import_module("mine").Doubling
trial = Doubling(Pool(capacity_tokens=1000, max_model_len=320, block_size=16))
assert trial.place(0, 10) and trial.owned(0) == 16
assert trial.grow(0, 17) and trial.owned(0) == 32
assert trial.grow(0, 33) and trial.owned(0) == 64
trial.check()
### BEGIN HIDDEN TESTS
import random

assert trial.grow(0, 300) and trial.owned(0) == 320, "never more than the longest sequence needs"
trial.check()
for seed in range(20):
    draws = random.Random(seed)
    mine = Doubling(
        Pool(capacity_tokens=draws.randint(200, 1200), max_model_len=190, block_size=draws.choice([1, 4, 16]))
    )
    alive = {}
    for owner in range(150):
        if alive and draws.random() < 0.4:
            gone = draws.choice(list(alive))
            mine.release(gone)
            del alive[gone]
        before = (mine.free_tokens, dict(mine.tokens))
        tokens = draws.randint(1, 100)
        if mine.place(owner, tokens):
            alive[owner] = tokens
        else:
            assert (mine.free_tokens, dict(mine.tokens)) == before, "a refusal changes nothing"
        if alive:
            grower = draws.choice(list(alive))
            more = min(190, alive[grower] + draws.randint(0, 60))
            before = (mine.free_tokens, mine.owned(grower))
            if mine.grow(grower, more):
                alive[grower] = more
            else:
                assert (mine.free_tokens, mine.owned(grower)) == before, "a refusal changes nothing"
        mine.check()
        assert mine.tokens == alive
    for owner in list(alive):
        mine.release(owner)
    mine.check()
    assert mine.free_tokens == mine.pool.capacity_tokens, "everything comes back"
assert contest("mine:Doubling", requests=300, check=True).allocators["mine:Doubling"].requests == 300
### END HIDDEN TESTS

# %% [markdown]
"""
## The contest

**Before you run it:** where will yours stand, between reservation and paging? In what column will its waste be?
"""

# %%
final = contest("reservation", "halves:Halves", "mine:Doubling", "buddy", "paged")
table(final)

# %%
draw(final, "account")

# %%
draw(final, "refused-by-length")

# %% [markdown]
"""
**Exercise 8b (2 points).** How often did a request of your allocator have to ask for room, and how often with paging? Write the
number of times that a request asks which arrives with `prompt` tokens and grows one token at a time to `final`, counting its
arrival: under doubling and under paging, `block_size` tokens to a block, no limit.
"""


# %% exercise="8b"
def asks_doubling(prompt, final, block_size):
    """Times that a request gets room under doubling."""
    ### BEGIN SOLUTION
    blocks = 1 << (-(-prompt // block_size) - 1).bit_length()
    asks = 1
    while blocks * block_size < final:
        blocks, asks = 2 * blocks, asks + 1
    return asks
    ### END SOLUTION


def asks_paging(prompt, final, block_size):
    """Times that a request gets room under paging."""
    ### BEGIN SOLUTION
    return 1 + -(-final // block_size) - -(-prompt // block_size)
    ### END SOLUTION


# %% test="8b" points=2
assert asks_doubling(16, 2048, 16) == 8
assert asks_paging(16, 2048, 16) == 128


### BEGIN HIDDEN TESTS
def counted(prompt, final, size, more):
    """By asking for one token after the other; `more` blocks are had after so many."""
    blocks, asks = more(0), 1
    while blocks * size < prompt:
        blocks = more(blocks)
    for tokens in range(prompt + 1, final + 1):
        if tokens > blocks * size:
            blocks, asks = more(blocks), asks + 1
    return asks


for prompt, final, size in ((1, 1, 16), (5, 100, 4), (100, 900, 16), (33, 64, 16), (3, 700, 1)):
    for count, more in ((asks_doubling, lambda had: 2 * had or 1), (asks_paging, lambda had: had + 1)):
        assert count(prompt, final, size) == counted(prompt, final, size, more), (count.__name__, prompt, final, size)
### END HIDDEN TESTS

# %% [markdown]
"""
Doubling asks less often, and pays for it with memory. Is that a good bargain? Look back at lesson 3: how often is a table written,
and how often read? Turn the load:
"""


# %%
@interact(load=(0.4, 2.0, 0.2))
def shown(load=1.0):
    """The contest at one load."""
    display(table(contest("reservation", "mine:Doubling", "paged", load=str(load))))


# %%
framed(
    {f"{load:g}": draw(contest("halves:Halves", "mine:Doubling", "paged", load=str(load)), "account")
     for load in (0.6, 1.0, 1.4)},
    "load",
)  # fmt: skip

# %% [markdown]
"""
## To take home

- An allocator is a contract about addresses. Whoever keeps it can be compared.
- Between the longest and the next token lies a whole range of promises. Each trades asking against waste.
- Run it with `check=True` once: a wrong `free_tokens` gives wrong figures in silence.
"""
