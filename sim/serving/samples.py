"""Several samples of one prompt, as vLLM serves them: as many requests, each by itself, that happen to begin alike.

Nothing is forked and nothing is copied; what they share, the prefix cache finds, if it is on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pagesim.sim.trace import HashIds, Trace


def independent_samples(trace: Trace) -> Trace:
    """A trace with a request for each sample that `trace.n` asks for, one behind the other, and no `n`.

    Samples of a prompt share its text: where a trace says nothing about that, each prompt gets one id of its own.
    """
    if trace.n is None:
        return trace
    rows = np.repeat(np.arange(len(trace)), trace.n)
    if trace.hash_ids is None and len(rows) > len(trace):
        ids = HashIds(np.arange(len(trace)), np.arange(len(trace) + 1))
        trace = replace(trace, hash_ids=ids, hash_block_tokens=int(trace.prompt_tokens.max()))
    return replace(trace.take(rows), n=None)
