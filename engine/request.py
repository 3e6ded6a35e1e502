"""A request inside the engine: its sequences, one for each sample, and what has been told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pagesim.engine.models.tokenizer import Detokenizer, Tokenizer
from pagesim.engine.outputs import NewToken, RequestOutput, SampleOutput
from pagesim.engine.sampling import SamplingParams, sample_seed
from pagesim.engine.sequence import Sequence


@dataclass(slots=True)
class Request:
    """`stops`: the tokens that end a sample. `detokenizers`: one for each sample, if its text is streamed."""

    id: str
    sequences: tuple[Sequence, ...]
    stops: frozenset[int]
    detokenizers: tuple[Detokenizer, ...]
    arrival_s: float
    first_token_s: float | None = None

    @property
    def entries(self) -> tuple[Sequence, ...]:
        """What the scheduler is given: every sequence, or with forks the first, which holds the others."""
        return self.sequences[:1] if self.sequences[0].forks else self.sequences

    @property
    def finished(self) -> bool:
        """Whether every sample has ended."""
        return all(sequence.finish_reason is not None for sequence in self.sequences)

    def new_token(self, index: int, token_id: int) -> NewToken:
        """What a sampled token, already appended to its sequence, looks like outside."""
        sequence = self.sequences[index]
        reason = sequence.finish_reason
        text = ""
        if self.detokenizers:
            text = self.detokenizers[index].extend(sequence.outputs, finished=reason is not None)
        return NewToken(self.id, index, token_id, text, None if reason is None else reason.value)

    def output(self, tokenizer: Tokenizer, now_s: float) -> RequestOutput:
        """The request as a whole; every sample has ended."""
        samples = []
        for index, sequence in enumerate(self.sequences):
            assert sequence.finish_reason is not None
            outputs = sequence.outputs
            text = tokenizer.decode(outputs)
            samples.append(SampleOutput(index, tuple(outputs), text, sequence.finish_reason.value))
        return RequestOutput(
            request_id=self.id,
            prompt_token_ids=tuple(self.sequences[0].prompt),
            samples=tuple(samples),
            arrival_s=self.arrival_s,
            first_token_s=self.first_token_s,
            finished_s=now_s,
            num_preemptions=sum(sequence.num_preemptions for sequence in self.sequences),
        )


def make_sequences(
    make: Callable[..., Sequence], request_id: str, prompt: list[int], sampling: SamplingParams
) -> tuple[Sequence, ...]:
    """One sequence for each sample, with a seed of its own; with `fork` the first holds the others.

    `make`: Sequence, with the options that all have in common. `sampling` has a seed.
    """
    assert sampling.seed is not None
    names = [request_id] if sampling.n == 1 else [f"{request_id}.{index}" for index in range(sampling.n)]
    each = [replace(sampling, seed=sample_seed(sampling.seed, index)) for index in range(sampling.n)]
    others = tuple(make(name, prompt, own) for name, own in zip(names[1:], each[1:], strict=True))
    return (make(names[0], prompt, each[0], forks=others if sampling.fork else ()), *others)
