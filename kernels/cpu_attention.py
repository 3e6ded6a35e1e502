"""The step both halves of the CPU backend share: torch's SDPA, or the same by hand where a soft cap is asked for."""

from __future__ import annotations

import torch
import torch.nn.functional

from pagesim.kernels.options import AttentionOptions


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, options: AttentionOptions
) -> torch.Tensor:
    """Attention of `query` [n, H, rows, D] over `key` and `value` [n, KV, width, D]; H is a multiple of KV.

    `mask`: added to the scores, of the query's dtype, broadcast to [n, H, rows, width]; None: the first row is at
    position 0, and each sees up to its own.
    """
    if options.softcap is None:
        return torch.nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=options.scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, 1).float() for x in (key, value))
    scores = query.float() @ key.transpose(2, 3) * options.scale
    scores = options.softcap * torch.tanh(scores / options.softcap)
    if mask is None:
        mask = torch.full(scores.shape[2:], float("-inf"), device=scores.device).triu_(1)
    return ((scores + mask).softmax(-1) @ value).to(query.dtype)
