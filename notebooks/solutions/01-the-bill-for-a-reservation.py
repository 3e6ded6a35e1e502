# %% [markdown]
"""
# Lesson 1: the bill for a reservation

**You will be able to**

1. say what one token of context costs in bytes, for a model whose shape you know;
2. work out how many sequences a card holds if each is given room for the longest one allowed;
3. say how much of that room is ever used, and why a simple mean gives the wrong answer.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 10 | what a token costs (exercise 1a) |
| 10 | one reservation, and how many fit (exercise 1b) |
| 20 | the pool in use: occupied is not used (exercise 1c) |
| 5 | turn the limit |
| 5 | what to take home |

Exercises are graded by the cell in which you answer, and by nothing else: helpers and imports that an answer needs belong in it.

A server of language models keeps, for each conversation, the keys and values of every token that it has seen. That memory grows
by one token at a time, and nobody knows in advance how large it will get. The obvious way to deal with an array that grows is
to reserve room for the largest that it could become.
"""

# %%
from IPython.display import display
from ipywidgets import interact

from pagesim.sim.budget import BudgetOptions
from pagesim.sim.capacity_report import Questions, capacity_report
from pagesim.sim.catalog.models import find_model
from pagesim.sim.config import PoolConfig, RunConfig, WorkloadConfig
from pagesim.sim.frames import framed
from pagesim.sim.gallery import draw
from pagesim.sim.lengths import note_lengths
from pagesim.sim.notebook import table
from pagesim.sim.poolplan import PoolOptions, plan_pool
from pagesim.sim.result import RunResult
from pagesim.sim.run import run

# %% [markdown]
"""
## What one token costs

A layer of attention keeps, for every token, a key and a value in each of its KV heads; each is a row of `head_dim` numbers.

**Exercise 1a (2 points).** How many bytes does one token take in the cache of the whole model?
"""


# %% exercise="1a"
def bytes_per_token(layers, kv_heads, head_dim, bytes_per_number):
    """Bytes that the keys and values of one token take, over all layers."""
    ### BEGIN SOLUTION
    return layers * kv_heads * 2 * head_dim * bytes_per_number
    ### END SOLUTION


# %% test="1a" points=2
assert bytes_per_token(layers=1, kv_heads=1, head_dim=1, bytes_per_number=1) == 2
assert bytes_per_token(layers=24, kv_heads=2, head_dim=64, bytes_per_number=2) == 12_288
### BEGIN HIDDEN TESTS
for name in ("qwen2.5-0.5b", "llama-3.1-8b", "qwen3-8b"):
    model = find_model(name)
    layer = model.layers[0]
    expected = plan_pool(PoolOptions(model=name, num_blocks=100)).pool.bytes_per_token
    got = bytes_per_token(len(model.layers), layer.kv_heads, layer.numbers_per_head // 2, model.number_bytes())
    assert got == expected, (name, got, expected)
### END HIDDEN TESTS

# %% [markdown]
"""
The second assertion is a model of half a billion parameters, Qwen2.5-0.5B, in half precision: 12 KiB a token. It stands on a
Tesla T4, and its server allows sequences of up to 2,048 tokens, prompt and answer together.

## How many fit?

One reservation is 2,048 tokens in a row, held as long as the request lives.

**Before you run it:** how many bytes is that? How many fit into the memory that the card has left beside the model?
"""

# %%
card = capacity_report(PoolOptions(model="qwen2.5-0.5b", num_blocks=58_064), Questions(2048, note_lengths(), card="t4"))
print(f"a token                      {card['bytes_per_token']:>14,} bytes")
print(f"a reservation                {card['reservation_bytes']:>14,} bytes = {card['reservation_bytes'] // 2**20} MiB")
print(f"the card                     {card['bare_card']['total_bytes']:>14,} bytes")
print(f"reservations on the bare card{card['bare_card']['reservations']:>14}")
print(f"the engine's cache           {card['pool_bytes']:>14,} bytes = {card['pool_tokens']:,} tokens")
print(f"reservations in that cache   {card['reservations']:>14}")
assert (card["bare_card"]["reservations"], card["reservations"]) == (573, 453)

# %% [markdown]
"""
Why two answers? The first leaves nothing for a model that computes: weights, a CUDA context, and then reservations until the
card refuses. The second is the budget that an engine gives its cache after it has seen how much memory a step of the model
takes. Here is that budget, at 85% of the card:
"""

# %%
budget = plan_pool(PoolOptions(model="qwen2.5-0.5b", device="t4", budget=BudgetOptions(utilization=0.85))).budget
for term in (budget.total, *budget.terms):
    print(f"{term.name:12} {term.num_bytes:>14,} bytes, {term.standing.value}")
print(f"{'allowed':12} {budget.allowed_bytes:>14,} bytes, {budget.utilization:.0%} of the total")
print(f"{'cache':12} {budget.cache_bytes:>14,} bytes, what is left")

# %% [markdown]
"""
**Exercise 1b (2 points).** Two questions that an operator asks: how many reservations does a cache hold? And the other way
round: what is the longest context that can be promised, if so many sequences must fit?
"""


# %% exercise="1b"
def reservations(cache_bytes, max_model_len, token_bytes):
    """How many contiguous reservations of `max_model_len` tokens fit."""
    ### BEGIN SOLUTION
    return cache_bytes // (max_model_len * token_bytes)
    ### END SOLUTION


def longest_promise(cache_bytes, sequences, token_bytes):
    """The longest max_model_len, in tokens, at which `sequences` reservations fit."""
    ### BEGIN SOLUTION
    return cache_bytes // sequences // token_bytes
    ### END SOLUTION


# %% test="1b" points=2
assert reservations(card["pool_bytes"], 2048, 12_288) == 453
assert longest_promise(card["pool_bytes"], 453, 12_288) >= 2048
### BEGIN HIDDEN TESTS
for limit in (128, 512, 1000, 2048, 4096, 32_768):
    expected = capacity_report(PoolOptions(model="qwen2.5-0.5b", num_blocks=58_064), Questions(limit, note_lengths()))
    assert reservations(card["pool_bytes"], limit, 12_288) == expected["reservations"], limit
for sequences in (1, 7, 453, 5000):
    limit = longest_promise(card["pool_bytes"], sequences, 12_288)
    assert reservations(card["pool_bytes"], limit, 12_288) >= sequences, sequences
    assert reservations(card["pool_bytes"], limit + 1, 12_288) < sequences, sequences
### END HIDDEN TESTS

# %% [markdown]
"""
## What is in those buffers?

Requests are mostly short. Ours have a median of 180 tokens and a mean of 260 before they are clipped at 2,048. They come at
random and stay the longer the more tokens they have. The same arrivals go through three allocators: one reserves 2,048 tokens
for each; one is an oracle that is told each length; one hands out blocks of 16. A request that finds no room is lost.

**Before you run it:** the load is such that 453 places ought to be busy nearly all the time. How much of the occupied memory
will hold a token? Write down a number.
"""

# %%
config = RunConfig(load="moderate", num_runs=1)
moderate = RunResult.of(config, run(config))
table(moderate)

# %%
reservation = moderate.allocators["reservation"]
assert round(reservation.occupied.mean, 2) == 0.95
assert 0.12 < reservation.refused_share.mean < 0.16
assert moderate.allocators["paged"].refused == moderate.allocators["exact-fit"].refused == 0
draw(moderate, "account")

# %% [markdown]
"""
Reservation turns away about one request in seven, with its memory 95% occupied, and one quarter of it used. The others admit
everything. What it wastes is inside the reservations: it cannot be seen by asking the allocator, for which that memory is in use.

## A quarter, not an eighth

Did you divide the mean length by 2,048? That gives an eighth:
"""

# %%
lengths = note_lengths()
print(f"mean length / 2,048:               {lengths.mean / 2048:.1%}")
print(f"used / occupied in the run above:  {reservation.used.mean / reservation.occupied.mean:.1%}")

# %% [markdown]
"""
Yet twice as much is used. Who is in the pool at a given moment is not a fair sample of those who arrive.

**Exercise 1c (4 points).** A request of length *L* stays for a time proportional to *L*. Write the share of occupied memory
that is used when all of them are given `max_model_len`. `values` are the lengths, `probabilities` how often each arrives
(both numpy arrays).
"""


# %% exercise="1c"
def used_share(values, probabilities, max_model_len):
    """Used of occupied, over time, under reservation."""
    ### BEGIN SOLUTION
    here = probabilities * values  # who is in the pool at a moment: weighted by how long each stays
    return float((here * values).sum() / here.sum() / max_model_len)
    ### END SOLUTION


# %% test="1c" points=4
import numpy as np

assert abs(used_share(np.array([100]), np.array([1.0]), 200) - 0.5) < 1e-12
### BEGIN HIDDEN TESTS
assert abs(used_share(np.array([1, 3]), np.array([0.5, 0.5]), 4) - 0.625) < 1e-12
found = used_share(lengths.values, lengths.probabilities, 2048)
assert abs(found - reservation.used.mean / reservation.occupied.mean) < 0.02, found
### END HIDDEN TESTS

# %% [markdown]
"""
## Turn the limit

In that design capacity is set by the longest sequence that the server permits, not by those that it serves. Each stop of the
slider is a limit; the curves say how many sequences of one length the empty pool holds.
"""


# %%
def at_limit(max_model_len):
    """The pool of the card under another limit; few requests, since only its size is looked at."""
    config = RunConfig(load="0.5", max_model_len=max_model_len, num_runs=1, workload=WorkloadConfig(num_requests=200))
    return RunResult.of(config, run(config))


held = {limit: at_limit(limit).pool.reservations for limit in (512, 1024, 2048, 4096)}
print("reservations by limit:", held)
assert held[2048] == 453 and held[4096] * 2 <= held[2048] + 1
framed({f"{limit:,}": draw(at_limit(limit), "capacity") for limit in (2048, 4096, 8192)}, "max_model_len")

# %% [markdown]
"""
The line of `reservation` is flat: it never gains from short sequences. That of `paged` follows the tokens that are held. With a
kernel at work you can turn the limit under load, too (in a smaller pool, so that it answers at once):
"""


# %%
@interact(max_model_len=[256, 512, 1024, 2048, 4096])
def shown(max_model_len=2048):
    """The table at one limit."""
    config = RunConfig(
        load="0.5", max_model_len=max_model_len, allocators=("reservation", "paged"), num_runs=1,
        pool=PoolConfig(tokens=65_536), workload=WorkloadConfig(num_requests=1000),
    )  # fmt: skip
    display(table(RunResult.of(config, run(config))))


# %% [markdown]
"""
A short limit helps reservation, and is paid for by those whose requests are longer than that: they are *rejected*. That is
what it means to raise capacity by promising users shorter answers.

## To take home

- Bytes per token = layers x KV heads x 2 x head_dim x bytes per number.
- A reservation costs the maximum, whoever comes. Occupied is not used.
- Who is in the pool is weighted by how long they stay.

**For the next lesson:** the oracle wastes nothing inside. Why does not even an oracle fill the pool?
"""
