"""The capacity probe as one value: every count beside its prediction; JSON of schema pagesim.validate-capacity/1."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pagesim.engine.config import EngineConfig
from pagesim.sim.sizes import format_bytes
from pagesim.validate.capacity.grain import Grain, grain
from pagesim.validate.capacity.predicted import Predicted
from pagesim.validate.capacity.seen import Held, Probed, Started

SCHEMA = "pagesim.validate-capacity/1"


@dataclass(frozen=True, slots=True)
class Row:
    """`predicted`: the least and the most, equal where there is no play; None: nothing was predicted.

    `judged`: whether it decides the verdict; otherwise it is shown with the remark that explains it.
    """

    id: str
    what: str
    unit: str
    predicted: tuple[int, int] | None
    measured: int | None
    judged: bool = True
    remark: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether what was measured is what was predicted; None where that is not judged."""
        if not self.judged or self.predicted is None:
            return None
        return self.measured is not None and self.predicted[0] <= self.measured <= self.predicted[1]

    def as_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "id": self.id,
            "what": self.what,
            "unit": self.unit,
            "predicted": None if self.predicted is None else list(self.predicted),
            "measured": self.measured,
            "agrees": self.agrees,
            "remark": self.remark,
        }


@dataclass(frozen=True, slots=True)
class CapacityResult:
    """`started`: a str where the engine found no memory for what it had planned."""

    config: EngineConfig
    predicted: Predicted
    probed: Probed
    started: Started | str
    held: tuple[Held, ...]

    @property
    def agrees(self) -> bool:
        """Whether every row that is judged does, and nothing else was found."""
        return not self.findings and all(row.agrees is not False for row in self.rows)

    @property
    def rows(self) -> list[Row]:
        """The probe, the start, and what the caches held."""
        rows = [*self._probe_rows()]
        if isinstance(self.started, str):
            return rows
        return [*rows, *self._start_rows(self.started), *self._held_rows(self.started)]

    @property
    def findings(self) -> list[str]:
        """What is wrong beside the counts, a line each."""
        probed, found = self.probed, []
        if not probed.refused:
            found.append(f"probe: nothing refused a buffer past the limit of {format_bytes(probed.limit_bytes)}")
        if abs(probed.beside_weights_bytes) > self._grain.model_bytes:
            found.append(
                f"probe: loading took {format_bytes(probed.beside_weights_bytes)} beside the weights; "
                f"at most {format_bytes(self._grain.model_bytes)} are explained"
            )
        if isinstance(self.started, str):
            found.append(f"engine: it found no memory for what its own budget planned: {self.started}")
        return found + [line for each in self.held for line in each.findings]

    def document(self) -> dict[str, Any]:
        """Plain values by name."""
        return {
            "schema": SCHEMA,
            "agrees": self.agrees,
            "engine": asdict(self.config),
            "probe": {**asdict(self.probed), "room_bytes": self._room, "grain": asdict(self._grain)},
            "start": {"refused": self.started} if isinstance(self.started, str) else asdict(self.started),
            "rows": [row.as_json() for row in self.rows],
            "findings": self.findings,
        }

    @property
    def max_model_len(self) -> int:
        """Tokens of one reservation."""
        assert self.config.max_model_len is not None
        return self.config.max_model_len

    @property
    def _grain(self) -> Grain:
        reservation = self.predicted.cache.sequence_bytes(self.max_model_len)
        return grain(self.config.device, reservation, self.probed.weights_bytes)

    @property
    def _room(self) -> int:
        """What was there for reservations: the prediction's weights, and what was measured before the count."""
        probed = self.probed
        weights = self.predicted.weights_bytes or probed.weights_bytes
        return probed.limit_bytes - probed.before_bytes - weights - probed.beside_weights_bytes

    def _probe_rows(self) -> list[Row]:
        probed, predicted, tokens = self.probed, self.predicted, self.max_model_len
        reservation, weights = predicted.cache.sequence_bytes(tokens), predicted.weights_bytes
        beside = f"{format_bytes(probed.before_bytes)} taken before, " if probed.before_bytes else ""
        rows = [
            Row(
                "weights_bytes", "weights", "bytes", None if weights is None else (weights, weights),
                probed.weights_bytes, remark="" if weights else "how many parameters is not known beforehand",
            ),
            Row("reservation_bytes", f"one reservation of {tokens:,} tokens", "bytes", (reservation, reservation),
                probed.buffer_bytes),
            Row(
                "reservations", "reservations until it refuses", "buffers",
                self._grain.counts(self._room, reservation), probed.count,
                remark=f"of {format_bytes(probed.limit_bytes)}: {beside}{format_bytes(probed.left_bytes)} left; "
                f"refused by {probed.refused_by}",
            ),
        ]  # fmt: skip
        if probed.touched_bytes is not None:
            written = probed.count * reservation
            most = written + probed.count * self._grain.each_bytes + self._grain.once_bytes
            rows.append(Row("touched_bytes", "of them, really written", "bytes", (written, most), probed.touched_bytes))
        if self.config.device != "cpu" and probed.refused_by == "the driver":
            bare = predicted.bare_card(probed.limit_bytes, probed.weights_bytes, tokens)
            why = f"`pagesim capacity` assumes 0.2 GiB of context; here {format_bytes(probed.before_bytes)} were taken"
            rows.append(Row("bare_card", "the same, not having seen the card", "buffers", (bare, bare), probed.count,
                            judged=False, remark=why))  # fmt: skip
        return rows

    def _start_rows(self, started: Started) -> list[Row]:
        config, per_token = self.config, self.predicted.cache.bytes_per_token
        blocks = self.predicted.num_blocks(config, started)
        planned = started.weights_bytes + started.copy_bytes + started.cache_bytes
        most = planned + self._grain.books_bytes(started.num_blocks)
        if config.device != "cpu":  # torch may hold on to what the pass over the largest batch took
            most = started.limit_bytes or most + started.activation_bytes
        cache = blocks * config.block_size * per_token
        rows = [
            Row("num_blocks", "blocks of the engine", "blocks", (blocks, blocks), started.num_blocks,
                remark=f"{started.rule}; activations as the engine says, {format_bytes(started.activation_bytes)}"),
            Row("cache_bytes", "its cache", "bytes", (cache, cache), started.cache_bytes),
            Row("took_bytes", "what its start took", "bytes", (planned, most), started.took_bytes,
                remark="weights and cache, and the engine's books beside them"),
        ]  # fmt: skip
        guess = None if self.config.device == "cpu" else self.predicted.estimated_blocks(config, self.probed.device)
        if guess is not None and started.rule.endswith("of the card leaves"):
            why = "`pagesim capacity` estimates vLLM's activations and workspace, not this engine's"
            rows.append(Row("estimated_blocks", "the same, not having seen the engine", "blocks", (guess, guess),
                            started.num_blocks, judged=False, remark=why))  # fmt: skip
        return rows

    def _held_rows(self, started: Started) -> list[Row]:
        capacity = self.predicted.capacity(self.config, started.num_blocks, self.max_model_len)
        rows = []
        for held in self.held:
            if held.kind == "paged":
                count = capacity.servable_sequences(held.tokens)
                whole = capacity.sequences(held.tokens)
                remark = "" if whole == count else f"{whole:,} if the null block were room"
            elif held.kind == "reservation":
                count, remark = capacity.reservations, ""
            else:
                count, remark = capacity.pool.pool_bytes // self.predicted.cache.sequence_bytes(held.tokens), ""
            what = f"{held.kind}, of {held.tokens:,} tokens"
            rows.append(Row(f"{held.kind}/{held.tokens}", what, "sequences", (count, count), held.count, remark=remark))
        return rows
