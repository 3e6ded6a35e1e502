"""From logits to tokens: the likeliest, or one drawn by temperature, top-k and top-p.

One number picks one token, by inverting the distribution; where it comes from is the caller's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Draw:
    """The token of one row of a batch is to be drawn: by which rules, and the number in [0, 1) that decides.

    `temperature`: above 0. `top_k` keeps the k likeliest tokens, None all; `top_p` the fewest of them whose
    probabilities reach p.
    """

    row: int
    temperature: float
    top_k: int | None
    top_p: float
    uniform: float

    @property
    def cuts(self) -> bool:
        """Whether only the likeliest tokens are to be drawn from."""
        return self.top_k is not None or self.top_p < 1


def sample(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    """One token for each row of `logits`, [R, vocab]: drawn where `draws` say so, else the likeliest."""
    best = _likeliest(logits)
    # which way a row goes depends on its own parameters and not on the batch
    for way, cuts in ((_draw, False), (_draw_from_likeliest, True)):
        if chosen := [draw for draw in draws if draw.cuts == cuts]:
            rows = [draw.row for draw in chosen]
            best[rows] = way(logits[rows], chosen)
    tokens: list[int] = best.tolist()
    return tokens


def _likeliest(logits: torch.Tensor) -> torch.Tensor:
    """argmax of each row, the first of equals. On a CPU by numpy, whose search is over ten times as fast as torch's."""
    if logits.device.type != "cpu":
        return logits.argmax(-1)
    return torch.from_numpy(logits.float().numpy().argmax(-1))


def _draw(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """From all tokens, in the order of their ids."""
    return _invert(_probabilities(logits, draws), draws)


def _draw_from_likeliest(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """From the likeliest token down: top-k and top-p keep a beginning of that order."""
    vocab = logits.shape[1]
    limits = [min(draw.top_k or vocab, vocab) for draw in draws]
    ordered, tokens = logits.topk(max(limits), dim=-1)
    beyond = torch.arange(max(limits), device=logits.device) >= _column(limits, logits)
    probabilities = _probabilities(ordered.masked_fill(beyond, float("-inf")), draws)
    before = probabilities.cumsum(-1) - probabilities
    kept = before < _column([draw.top_p for draw in draws], logits)  # what comes before is not enough yet
    return tokens.gather(-1, _invert(probabilities * kept, draws)[:, None]).flatten()


def _probabilities(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    return (logits.double() / _column([draw.temperature for draw in draws], logits)).softmax(-1)


def _invert(weights: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """In each row the first place where the running sum of `weights` passes the row's share of the total."""
    reached = weights.cumsum(-1)
    share = _column([draw.uniform for draw in draws], weights) * reached[:, -1:]
    place = (reached <= share).sum(-1)
    last = weights.shape[1] - 1 - (weights > 0).flip(-1).int().argmax(-1)  # the sum may be rounded past its end
    return torch.minimum(place, last)


def _column(values: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64, device=like.device)[:, None]
