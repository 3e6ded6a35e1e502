"""How much of a prompt two requests can share when only whole blocks are shared: arithmetic, without a cache.

What a cache still holds when a request comes is another question, and is not answered here.
"""

from __future__ import annotations

from pagesim.sim.errors import UsageError


def full_block_hit_tokens(shared_tokens: int, prompt_tokens: int, block_size: int, same_salt: bool = True) -> int:
    """Tokens found by a prompt of `prompt_tokens` whose first `shared_tokens` are in the cache.

    The longest hit is capped at prompt - 1, so that something is left to compute, and ends with a block. Another salt
    changes the hash of the first block, and the chain carries it on: nothing is found. Raises UsageError unless
    0 <= shared <= prompt, and block_size >= 1.
    """
    if not 0 <= shared_tokens <= prompt_tokens or block_size < 1:
        raise UsageError(
            f"{shared_tokens} of {prompt_tokens} tokens shared in blocks of {block_size}; "
            "accepted: no more than the prompt, and blocks of 1 token or more"
        )
    if not same_salt:
        return 0
    return max(0, min(shared_tokens, prompt_tokens - 1)) // block_size * block_size


def private_blocks(samples: int, tokens: int, block_size: int) -> int:
    """Blocks that `samples` continuations of `tokens` tokens each hold for themselves, whatever prompt they share."""
    return samples * -(-tokens // block_size)
