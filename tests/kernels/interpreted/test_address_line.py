"""The account's address line (`pagesim.kernels.account.first_byte`, on which `pagesim quiz` and `kernel explain` rest)
against the kernels: they read the bytes it names, and no others.
"""

from __future__ import annotations

import pytest
import torch
from kernel_cases import TOLERANCE, worst
from kernel_checks import CARDS

from pagesim.kernels.account import Decode, first_byte
from pagesim.kernels.decode import decode_attention
from pagesim.kernels.layout import layout_of
from pagesim.kernels.options import AttentionOptions
from pagesim.kernels.sequences import Sequences
from pagesim.kernels.settings import Body

ITEM_BYTES = 4
DECODE = Decode(seq_len_tokens=40, num_layers=1, num_heads=4, num_kv_heads=2, item_bytes=ITEM_BYTES)
TABLE = (5, 0, 3)
ELSEWHERE = 1e30  # in every number that the head must not read


@pytest.mark.parametrize("body", Body)
@pytest.mark.parametrize("kv_head", range(DECODE.num_kv_heads))
def test_a_head_reads_the_bytes_named_and_no_others(body: Body, kv_head: int) -> None:
    random, dim, group = torch.Generator().manual_seed(0), DECODE.head_dim, DECODE.group
    cache = torch.full((max(TABLE) + 1, 2, DECODE.block_size, DECODE.num_kv_heads * dim), ELSEWHERE)
    keys, values = torch.randn(2, DECODE.seq_len_tokens, dim, generator=random)
    for position in range(DECODE.seq_len_tokens):
        for is_value, numbers in ((False, keys), (True, values)):
            start = first_byte(DECODE, TABLE, position, kv_head, is_value) // ITEM_BYTES
            cache.view(-1)[start : start + dim] = numbers[position]
    query = torch.randn(1, DECODE.num_heads, dim, generator=random)
    sequences = Sequences.paged(torch.tensor([TABLE]), [DECODE.seq_len_tokens], layout_of(cache, 2), "cpu")
    output = decode_attention(query, cache, sequences, AttentionOptions(0.125), card=CARDS[body])[0]
    mine = slice(kv_head * group, (kv_head + 1) * group)
    weights = torch.softmax(0.125 * query[0, mine].double() @ keys.double().T, 1)
    assert worst(output[mine], weights @ values.double()) <= TOLERANCE[torch.float32]
    others = [head for head in range(DECODE.num_heads) if head // group != kv_head]
    assert (output[others].abs() > ELSEWHERE / 100).all()
