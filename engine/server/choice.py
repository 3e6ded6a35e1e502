"""One sample on its way, as the engine's thread sees it: its stops, and the times of its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.engine.outputs import NewToken
from pagesim.engine.server.metrics import Metrics
from pagesim.engine.server.stop_text import StopFinder
from pagesim.engine.server.ticket import Delta, Ticket


@dataclass(slots=True)
class Choice:
    """`index`: among the ticket's. `last_s`: when its last token was there, on the engine's clock."""

    ticket: Ticket
    index: int
    prompt_tokens: int
    finder: StopFinder
    last_s: float | None = None

    def take(self, token: NewToken, now_s: float, metrics: Metrics) -> Delta:
        """The next token, as it is told to the client."""
        text, stopped = self.finder.feed(token.text, last=token.finish_reason is not None)
        reason = "stop" if stopped else token.finish_reason
        if self.last_s is None:
            metrics.first_token(now_s - self.ticket.arrived_s, self.prompt_tokens)
        else:
            metrics.next_token(now_s - self.last_s)
        self.last_s = now_s
        if reason is not None:
            metrics.finished(reason, now_s - self.ticket.arrived_s)
        return Delta(self.index, text, token.token_id, reason)
