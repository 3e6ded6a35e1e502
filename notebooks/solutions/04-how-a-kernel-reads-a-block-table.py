# %% [markdown]
"""
# Lesson 4: how a kernel reads a block table

**You will be able to**

1. follow an attention kernel tile by tile, and say why it never builds the whole row of scores;
2. write the one line in which a paged kernel differs from a contiguous one;
3. count what a tile reads and multiplies, and say what the count cannot tell.

**Plan, 50 minutes**

| minutes | what |
|---|---|
| 10 | the address line (exercise 4a) |
| 20 | attention in tiles, over a block table, by hand (exercise 4b) |
| 10 | the real kernel and its twin, interpreted: equal bit for bit |
| 5 | the account of a tile (exercise 4c) |
| 5 | what to take home |

With pencil and paper: `pagesim quiz --topic kernel --seed 3`; tile by tile: `pagesim kernel explain`.

This lesson needs torch and Triton, no GPU: Triton's interpreter runs the kernel on the CPU. It must be asked for before Triton is
imported, which the next cell does.
"""

# %%
import os

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import interact

from pagesim.kernels.account import Decode, first_byte, shuffled_table, total, walk
from pagesim.kernels.addressing import Addressing
from pagesim.kernels.decode import decode_attention
from pagesim.kernels.layout import layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences
from pagesim.sim.figures import laid_out, styled
from pagesim.sim.frames import framed

# %% [markdown]
"""
## The address line

The cache of one layer is one tensor, `[blocks, 2, block_size, kv_heads * head_dim]`: keys at 0, values at 1. On a contiguous cache
the key of position *i* lies at the base plus *i* times a stride. With a block table:

    address = table[i // B] * block stride + (i % B) * slot stride

**Exercise 4a (3 points).** In bytes, from the start of the tensor: where does the key (or the value) of position `i` and KV head
`head` start? Values lie half a block behind keys.
"""


# %% exercise="4a"
def address(table, i, head, is_value, block_size, kv_heads, head_dim, item_bytes):
    """The first byte of K, or V, of one position and KV head."""
    ### BEGIN SOLUTION
    slot_bytes = kv_heads * head_dim * item_bytes
    block_bytes = 2 * block_size * slot_bytes
    start = table[i // block_size] * block_bytes + (i % block_size) * slot_bytes
    return start + head * head_dim * item_bytes + (block_bytes // 2 if is_value else 0)
    ### END SOLUTION


# %% test="4a" points=3
assert address([3, 1], 0, 0, False, 16, 2, 64, 2) == 3 * 8192
assert address([3, 1], 17, 1, False, 16, 2, 64, 2) == 8192 + 256 + 128
### BEGIN HIDDEN TESTS
for shape in (
    Decode(seq_len_tokens=70),
    Decode(seq_len_tokens=200, block_size=32, num_kv_heads=4, num_heads=8, item_bytes=4),
):
    table = shuffled_table(shape, seed=1)
    for i in range(shape.seq_len_tokens):
        for head in range(shape.num_kv_heads):
            for is_value in (False, True):
                got = address(
                    table, i, head, is_value, shape.block_size, shape.num_kv_heads, shape.head_dim, shape.item_bytes
                )
                assert got == first_byte(shape, table, i, head, is_value), (i, head, is_value)
### END HIDDEN TESTS

# %% [markdown]
"""
## A cache in a shuffled pool, and its twin

One sequence of 70 tokens, two query heads on one KV head. Its blocks lie anywhere in the pool, and every slot that is not its own is
NaN: whoever reads what he must not read finds out. The **twin** holds the same keys and values in one run.
"""

# %%
LENGTH, BLOCK, HEADS, DIM = 70, 16, 2, 64
draws = torch.Generator().manual_seed(0)
keys, values = torch.randn(2, LENGTH, DIM, generator=draws)
query = torch.randn(1, HEADS, DIM, generator=draws)
table = [7, 2, 9, 4, 0]
paged = torch.full((10, 2, BLOCK, DIM), float("nan"))
twin = torch.full((1, 2, 80, DIM), float("nan"))
for i in range(LENGTH):
    paged[table[i // BLOCK], :, i % BLOCK] = torch.stack([keys[i], values[i]])
    twin[0, :, i] = torch.stack([keys[i], values[i]])
SCALE = DIM**-0.5


def naive():
    """The whole row of scores at once, in float64."""
    scores = SCALE * query[0].double() @ keys.double().T
    return torch.softmax(scores, -1) @ values.double()


print("scores held at once:", tuple((query[0] @ keys.T).shape), " slots of the pool that are NaN:",
      int(torch.isnan(paged[:, 0, :, 0]).sum()))  # fmt: skip

# %% [markdown]
"""
## In tiles

Nobody builds that row for a long conversation. A kernel walks the history a tile at a time and keeps three things: the greatest score
so far, the sum of exponentials, and the output so far. When a tile brings a greater score, what was summed is scaled down.

**Before you write it:** the kernel computes an address for every tile *anyway*. What does a block table change in this loop?

**Exercise 4b (6 points).** `q` is one query row, `cache` the paged tensor above (one KV head), all numpy in float64. Walk positions
`0..length-1` in tiles of `tile`. Never hold more than `tile` scores at once.
"""


# %% exercise="4b"
def attention_in_tiles(q, cache, table, length, block_size, tile, scale):
    """Attention of one query row over a paged cache; returns a row of head_dim numbers."""
    ### BEGIN SOLUTION
    greatest, weight, output = -np.inf, 0.0, np.zeros_like(q)
    for start in range(0, length, tile):
        i = np.arange(start, min(start + tile, length))
        blocks, offsets = np.asarray(table)[i // block_size], i % block_size
        scores = scale * cache[blocks, 0, offsets] @ q
        new = max(greatest, scores.max())
        shrink, exponentials = np.exp(greatest - new), np.exp(scores - new)
        weight = weight * shrink + exponentials.sum()
        output = output * shrink + exponentials @ cache[blocks, 1, offsets]
        greatest = new
    return output / weight
    ### END SOLUTION


# %% test="4b" points=6
pool = paged.double().numpy()
for head in range(HEADS):
    got = attention_in_tiles(query[0, head].double().numpy(), pool, table, LENGTH, BLOCK, 16, SCALE)
    assert np.allclose(got, naive()[head].numpy(), atol=1e-12), head
### BEGIN HIDDEN TESTS
row = query[0, 0].double().numpy()
for tile in (1, 5, 16, 64, 128):
    got = attention_in_tiles(row, pool, table, LENGTH, BLOCK, tile, SCALE)
    assert np.allclose(got, naive()[0].numpy(), atol=1e-12), f"tile {tile}"
loud = attention_in_tiles(800 * row, pool, table, LENGTH, BLOCK, 16, 1.0)
assert np.isfinite(loud).all(), "large scores overflow unless the greatest is taken off first"
short = attention_in_tiles(row, pool, table, 1, BLOCK, 16, SCALE)
assert np.allclose(short, values[0].double().numpy()), "one position: its value"
### END HIDDEN TESTS

# %% [markdown]
"""
## The real kernel, and its twin

The same Triton kernel, compiled or interpreted with another address line: `CONTIGUOUS` reads no table; `BY_POSITION` looks a block
number up for every position; `BY_BLOCK` one for a tile, which must lie inside a block.

**Before you run it:** will the results be equal, nearly equal, or equal bit for bit?
"""


# %%
def run_kernel(addressing):
    """Decode attention of the one sequence."""
    if addressing is Addressing.CONTIGUOUS:
        sequences = Sequences.contiguous([LENGTH], layout_of(twin, 1), "cpu")
        return decode_attention(query, twin, sequences, AttentionOptions(SCALE), addressing=addressing)
    sequences = Sequences.paged(torch.tensor([table]), [LENGTH], layout_of(paged, 1), "cpu")
    return decode_attention(query, paged, sequences, AttentionOptions(SCALE), addressing=addressing)


outputs = {addressing.name: run_kernel(addressing) for addressing in Addressing}
for name, output in outputs.items():
    print(f"{name:12} off the exact answer by {(output[0].double() - naive()).abs().max():.1e} at most,",
          "bit for bit the twin's:", torch.equal(output, outputs["CONTIGUOUS"]))  # fmt: skip
assert all(torch.equal(output, outputs["CONTIGUOUS"]) for output in outputs.values())

# %% [markdown]
"""
Bit for bit: the same numbers are multiplied in the same order, only their addresses come from elsewhere. And no NaN came in, so
nothing was read that was not the sequence's own. Break the table and see:
"""

# %%
wrong = Sequences.paged(torch.tensor([[7, 2, 9, 5, 0]]), [LENGTH], layout_of(paged, 1), "cpu")
print("one wrong entry:", decode_attention(query, paged, wrong, AttentionOptions(SCALE))[0, 0, :4])

# %% [markdown]
"""
## What a tile costs

The note's model: 14 query heads on 2 KV heads of 64 numbers, half precision, 24 layers; tiles and blocks of 16.

**Exercise 4c (3 points).** For one tile of `tile` positions and one KV head, with `queries` query heads to it: bytes of block numbers
if every position reads its own (4 bytes each), bytes of keys and values, and multiply-adds (scores, then values). Return the three.
"""


# %% exercise="4c"
def tile_account(tile, queries, head_dim, item_bytes):
    """(bytes of block numbers, bytes of K and V, multiply-adds) of one tile."""
    ### BEGIN SOLUTION
    return 4 * tile, 2 * tile * head_dim * item_bytes, 2 * queries * tile * head_dim
    ### END SOLUTION


# %% test="4c" points=3
assert tile_account(16, queries=7, head_dim=64, item_bytes=2) == (64, 4096, 14_336)
### BEGIN HIDDEN TESTS
for shape in (
    Decode(),
    Decode(tile_tokens=32, block_size=32, num_heads=32, num_kv_heads=8, head_dim=128, item_bytes=1),
):
    first = next(walk(shape, shuffled_table(shape, 0)))
    got = tile_account(shape.tile_tokens, shape.num_heads // shape.num_kv_heads, shape.head_dim, shape.item_bytes)
    assert got == (first.block_number_bytes, first.kv_bytes, first.multiply_adds)
### END HIDDEN TESTS

# %%
note = Decode()  # 2,000 tokens of the note's model
step = total(note, list(walk(note, shuffled_table(note, 0))))
print(f"tiles in one decode step        {step.num_tiles:>13,}")
print(f"table reads, one by position    {step.table_reads_by_position:>13,}")
print(f"table reads, one by block       {step.table_reads_by_block:>13,}")
print(f"bytes of K and V                {step.kv_bytes:>13,}")
print(f"bytes of the table itself       {step.table_bytes:>13,}")
assert step.table_reads_by_position == 96_000


@interact(seq_len_tokens=(16, 8192, 16), block_size=[16, 32, 64, 128])
def shown(seq_len_tokens=2000, block_size=16):
    """The account of a step, in another shape."""
    shape = Decode(seq_len_tokens=seq_len_tokens, block_size=block_size)
    step = total(shape, list(walk(shape, shuffled_table(shape, 0))))
    print(f"reads by position {step.table_reads_by_position:,}, by block {step.table_reads_by_block:,}; "
          f"K and V {step.kv_bytes:,} bytes, table {step.table_bytes:,} bytes")  # fmt: skip


# %% [markdown]
"""
Where the key of each position lies, in the twin and in pools of blocks of several sizes. The larger the block, the longer the runs.
"""


# %%
def addresses(block_size):
    """The byte at which K of each position starts, from the lowest of the sequence on."""
    shape = Decode(seq_len_tokens=256, block_size=block_size)
    table, positions = shuffled_table(shape, 1), list(range(shape.seq_len_tokens))
    figure = go.Figure()
    figure.add_scatter(x=positions, y=[i * shape.slot_bytes for i in positions], mode="lines", name="contiguous twin")
    figure.add_scatter(x=positions, y=[first_byte(shape, table, i) for i in positions], mode="markers", name="paged")
    figure.update_xaxes(title_text="position").update_yaxes(title_text="byte in the layer's tensor", tickformat=",")
    return styled(laid_out(figure, 300, len(figure.data)))


framed({f"{size}": addresses(size) for size in (16, 32, 64, 128)}, "block size")

# %% [markdown]
"""
64 bytes of block numbers against 4 KiB of keys and values and 14,336 multiply-adds: so the table should cost nothing worth measuring.
That is an expectation and not a proof. A load and a multiply-add are not commensurable; what a dependent load costs hangs on its
latency, and on what else the kernel has in flight. No count says so, and no interpreter. On a card,
`python benchmarks/gpu_check.py` times the kernel beside its twin.

## To take home

- The loop over tiles is there with or without paging; it already had a line that computes an address.
- The twin isolates the price of the table: same kernel, another address line, equal bits.
- A count is not a time.
"""
