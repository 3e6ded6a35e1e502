"""The steps of a run behind an allocator of contiguous runs, which places the same requests again, at its addresses."""

from __future__ import annotations

from pagesim.sim.allocators import OracleAllocator, Pool, allocator_class
from pagesim.sim.allocators.exact_fit import ExactFit
from pagesim.sim.poolmap.recording import Event, Kind, NoMapError, Piece, given_for
from pagesim.sim.poolmap.step_log import Levels, StepLog
from pagesim.sim.serving.log import ServingLog


class ContiguousSteps:
    """Goes through the steps of `log` in order."""

    def __init__(self, log: ServingLog) -> None:
        config = log.config
        self._name, self._whole = config.allocator, config.reserve_full_isl
        self._log, self._levels = StepLog(log), Levels()
        self._allocator = allocator_class(config.allocator)(
            Pool(config.usable_tokens, config.max_model_len, config.block_size)
        )
        last = isinstance(self._allocator, ExactFit)
        self._final = (log.prompt_tokens + log.output_tokens - last).tolist()

    @property
    def used(self) -> int:
        """Slots that somebody owns."""
        return self._allocator.pool.capacity_tokens - self._allocator.free_tokens

    @property
    def largest_free_run(self) -> int:
        """In slots."""
        return self._allocator.largest_free_run

    def given_for(self, asked: int) -> int:
        """What the allocator gives to whoever asks for so many slots."""
        return given_for(self._allocator, asked)

    def state(self, step: int) -> list[Event]:
        """What brings an empty pool to the present, when `step` ends."""
        told = []
        for row in sorted(self._levels.of):
            more = self._levels.of[row][2]
            told += [self._given(row), Event(Kind.TOKENS, row, (), (self._levels.at(row, step), more))]
        return told

    def finish(self, step: int) -> list[Event]:
        """Who sampled its last token in `step` gives back its run."""
        told = []
        for row in self._log.finished.get(step, ()):
            self._allocator.release(row)
            del self._levels.of[row]
            told.append(Event(Kind.LEAVE, row))
        return told

    def events(self, step: int) -> list[Event]:
        """What happens while `step` is scheduled."""
        told, chunks = [], self._log.chunks.get(step, {})
        for row, _, _ in self._log.admissions.get(step, ()):
            self._place(row, chunks[row].known if self._whole else chunks[row].computed)
            told.append(self._given(row))
        for row, chunk in chunks.items():
            more = chunk.computed == chunk.known
            self._levels.set(row, chunk.computed, step, more)
            told.append(Event(Kind.TOKENS, row, (), (chunk.computed, int(more))))
        for row in self._log.held_back.get(step, ()):
            tokens = self._levels.at(row, step - 1)
            self._levels.set(row, tokens, step, True)
            told.append(Event(Kind.TOKENS, row, (), (tokens, 1)))
        return told

    def _place(self, row: int, tokens: int) -> None:
        allocator = self._allocator
        moved = allocator.moved_tokens
        if isinstance(allocator, OracleAllocator):
            placed = allocator.place(row, tokens, self._final[row])
        else:
            placed = allocator.place(row, tokens)
        if not placed:
            raise NoMapError(f"{self._name} has no room for request {row} here, as the log says it had")
        if allocator.moved_tokens != moved:
            raise NoMapError(f"{self._name} moves what it placed, which the map of a queue does not follow")

    def _given(self, row: int) -> Event:
        pieces: list[Piece] = [(extent.start, extent.tokens) for extent in self._allocator.extents(row)]
        return Event(Kind.GIVE, row, tuple(pieces))
