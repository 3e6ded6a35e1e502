"""A recording played in Python, moment by moment: whose slots are whose, and the account of the pool that follows.

The page's script does the same; both are held against the simulator's own account.
"""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.sim.poolmap.recording import Event, Kind, Moment, Piece, Recording


@dataclass(frozen=True, slots=True)
class Account:
    """Slots: used + reserved + internal + free = the capacity."""

    used: int
    reserved: int
    internal: int
    free: int


class Playback:
    """The state of one recording. `table`: by owner, its pieces. `holders`: by unit, where units are blocks."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.table: dict[int, list[Piece]] = {}
        self._tokens: dict[int, tuple[int, int, int]] = {}  # by owner: tokens, at which step, more in each step
        self._step = 0

    def apply(self, moment: Moment) -> None:
        """Go on to `moment`."""
        self._step = moment.step
        for event in moment.events:
            self._apply(event)

    def _apply(self, event: Event) -> None:
        owner = event.owner
        if owner is None or event.kind in (Kind.REFUSE, Kind.HASH):
            return
        if event.kind in (Kind.GIVE, Kind.SHARE):
            self.table.setdefault(owner, []).extend(event.pieces)
        elif event.kind is Kind.COPY:
            self.table[owner][event.numbers[0]] = event.pieces[0]
        elif event.kind is Kind.MOVE:
            self.table[owner] = list(event.pieces)
        elif event.kind is Kind.TOKENS:
            tokens, more = event.numbers
            self._tokens[owner] = tokens, self._step, more
        else:
            self.table.pop(owner, None)
            self._tokens.pop(owner, None)

    def tokens(self, owner: int, time_s: float) -> int:
        """What it holds now."""
        who, (known, step, more) = self.recording.owners[owner], self._tokens[owner]
        if self.recording.grows != "time":
            return known + more * (self._step - step)
        outputs = who.final - who.prompt
        grown = who.prompt + int((time_s - who.from_s) / who.stay_s * outputs)
        return max(known, min(grown, self.owned(owner), who.final))

    def owned(self, owner: int) -> int:
        """Slots that it holds, by itself or with others."""
        return self.recording.unit * sum(units for _, units in self.table[owner])

    def account(self, time_s: float) -> Account:
        """Every slot once: what several hold is counted for the one of them that came first into the trace."""
        used = reserved = internal = 0
        seen: set[int] = set()
        unit, owners = self.recording.unit, self.recording.owners
        for owner in sorted(self.table, key=lambda owner: owners[owner].row):
            tokens, final, position = self.tokens(owner, time_s), owners[owner].final, 0
            for first, units in self.table[owner]:
                begin, size = position, units * unit
                position += size
                if first in seen:
                    continue
                seen.add(first)
                filled = min(max(tokens - begin, 0), size)
                to_be = max(filled, min(max(final - begin, 0), size))
                used, reserved, internal = used + filled, reserved + to_be - filled, internal + size - to_be
        return Account(used, reserved, internal, self.recording.capacity - used - reserved - internal)
