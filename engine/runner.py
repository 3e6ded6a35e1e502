"""Runs one step of the schedule on the device: copies, forward pass, sampling."""

from __future__ import annotations

from collections.abc import Sequence as Many

import torch

from pagesim.engine.batch import Batch, make_batch
from pagesim.engine.config import EngineConfig
from pagesim.engine.decoder import Decoder
from pagesim.engine.kv_cache import KvCache
from pagesim.engine.models.weights import Weights
from pagesim.engine.sampling import uniform
from pagesim.engine.sequence import Sequence
from pagesim.engine.step import Step
from pagesim.kernels.backends import Backend
from pagesim.kernels.decode_graphs import DecodeGraphs
from pagesim.kernels.sampling import Draw, sample


class Runner:
    """A decoder over one cache. With `audit` it asserts that no logit is NaN, which is what an unwritten slot holds."""

    def __init__(
        self, config: EngineConfig, weights: Weights, max_model_len: int, cache: KvCache, backend: Backend, audit: bool
    ) -> None:
        self.decoder = Decoder(weights, max_model_len, cache, backend)
        self._cache = cache
        self._audit = audit
        self._device = weights.embedding.device
        self.graphs: DecodeGraphs | None = None
        may_capture = config.cache == "paged" and not config.eager
        if may_capture and backend.name == "triton" and self._device.type == "cuda":
            self.graphs = DecodeGraphs(
                self.decoder.logits, cache.layout, self._device, config.max_num_seqs, max_model_len
            )

    @torch.inference_mode()
    def run(self, step: Step) -> dict[str, int]:
        """Compute the step's chunks. Returns the sampled token of each sequence that samples, by its id."""
        if step.copies:
            self.decoder.backend.copy(self._cache.layers, step.copies)
        if not step.chunks:
            return {}
        batch = make_batch(step.chunks, self._cache.layout, self._device)
        logits = self.logits(batch)
        if self._audit:
            assert not logits.isnan().any(), f"step {step.number} read a slot that nobody had written"
        tokens = sample(logits, _draws(batch.samplers))
        return {sequence.id: token for sequence, token in zip(batch.samplers, tokens, strict=True)}

    def logits(self, batch: Batch) -> torch.Tensor:
        """[R, vocab]: what follows each of the batch's rows."""
        if self.graphs is not None and batch.packed.prefills is None:
            return self.graphs.logits(batch.packed)
        return self.decoder.logits(batch.packed)


def _draws(samplers: Many[Sequence]) -> list[Draw]:
    """For those that are not greedy, the number that decides at their next position."""
    draws = []
    for row, sequence in enumerate(samplers):
        rules = sequence.sampling
        if rules.temperature:
            assert rules.seed is not None, "the engine gives every sequence one"
            number = uniform(rules.seed, len(sequence.tokens))
            draws.append(Draw(row, rules.temperature, rules.top_k, rules.top_p, number))
    return draws
