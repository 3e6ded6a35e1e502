"""The engine's thread: it takes requests from a queue, steps, and tells the event loop what came of each step.

Nothing else touches the engine, its tokenizer included. Requests and aborts are taken in between two steps, in the
order they were made. The event loop never waits for the engine, nor the engine for a reader.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pagesim.engine.errors import MemoryBudgetError, RequestError
from pagesim.engine.outputs import StepOutput
from pagesim.engine.server.api_error import ApiError
from pagesim.engine.server.choice import Choice
from pagesim.engine.server.job import Job, Messages
from pagesim.engine.server.metrics import Metrics
from pagesim.engine.server.stop_text import StopFinder
from pagesim.engine.server.ticket import Accepted, News, Ticket

if TYPE_CHECKING:
    from pagesim.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class _Submit:
    ticket: Ticket
    job: Job


@dataclass(frozen=True, slots=True)
class _Abort:
    ticket: Ticket


class _Stop:
    pass


class Worker:
    """`engine` must have been made with `time.monotonic`, its default clock. `name`: what the model is called."""

    def __init__(self, engine: Engine, name: str, max_waiting: int) -> None:
        self.engine = engine
        self.name = name
        self.metrics = Metrics(engine, name, self._num_arriving)
        self.failure: BaseException | None = None
        self._max_waiting = max_waiting
        self._inbox: SimpleQueue[_Submit | _Abort | _Stop] = SimpleQueue()
        self._num_submitted = 0  # samples; only the event loop writes it,
        self._num_taken = 0  # and only the thread writes this, so that neither needs a lock
        self._choices: dict[str, Choice] = {}  # by the engine's request id
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[], None]) -> None:
        """`on_failure` is called in the loop when the engine breaks; `failure` says why."""
        self._loop = loop
        self._on_failure = on_failure
        self._thread.start()

    def stop(self) -> None:
        """Let the step under way end, then the thread. Waits for it; may be called again."""
        self._inbox.put(_Stop())
        if self._thread.ident is not None:
            self._thread.join()

    def submit(self, id: str, job: Job) -> Ticket:
        """Hand a request over. Raises ApiError 503 if too many wait already, or the engine is gone."""
        if self.failure is not None:
            raise self._stopped()
        waiting = self._num_arriving() + len(self.engine.scheduler.waiting)
        if waiting >= self._max_waiting:
            raise ApiError(503, f"{waiting} samples wait already; accepted: fewer than {self._max_waiting}; try later")
        if job.priority and self.engine.config.policy != "priority":
            what = f"priority is {job.priority}; accepted: 0, unless the server runs with policy priority"
            raise ApiError(400, what, param="priority")
        ticket = Ticket(id, job.num_choices, time.monotonic())
        self._num_submitted += job.num_choices
        self._inbox.put(_Submit(ticket, job))
        return ticket

    def abort(self, ticket: Ticket) -> None:
        """Nobody reads it any more: its blocks are free before the next step. Nothing happens if it has ended."""
        if ticket.open_choices:
            self._inbox.put(_Abort(ticket))

    def _num_arriving(self) -> int:
        return self._num_submitted - self._num_taken

    def _run(self) -> None:
        try:
            while self._take_messages():
                if self.engine.has_work:
                    self._step()
        except BaseException as error:  # our own bug: whoever waits is told, then all ends
            self.failure = error
            self._call(self._fail)

    def _take_messages(self) -> bool:
        """All that are there; if there is nothing to do, wait for one. False: stop."""
        while not (self._inbox.empty() and self.engine.has_work):
            message = self._inbox.get()
            if isinstance(message, _Stop):
                return False
            if isinstance(message, _Abort):
                self._abort(message.ticket)
            else:
                self._take(message.ticket, message.job)
        return True

    def _fail(self) -> None:
        """In the event loop, where nobody can submit meanwhile."""
        tickets = {choice.ticket for choice in self._choices.values()}
        while not self._inbox.empty():
            message = self._inbox.get()
            if isinstance(message, _Submit):
                tickets.add(message.ticket)
        for ticket in tickets:
            ticket.tell(self._stopped())
        self._on_failure()

    def _stopped(self) -> ApiError:
        return ApiError(500, f"the engine has stopped: {self.failure}")

    def _take(self, ticket: Ticket, job: Job) -> None:
        added: list[str] = []
        try:
            prompt_tokens = self._add(ticket, job, added)
        except (ApiError, RequestError) as error:
            for id in added:
                self.engine.abort(id)
                del self._choices[id]
            news: News = error if isinstance(error, ApiError) else ApiError(400, str(error))
        else:
            news = Accepted(prompt_tokens)
        self._num_taken += job.num_choices  # from here on they are among the scheduler's, or refused
        self._tell([(ticket, news)])

    def _add(self, ticket: Ticket, job: Job, added: list[str]) -> int:
        """Let every choice wait in the engine; `added` grows with their ids. Returns the tokens of the prompts."""
        prompts = [self._token_ids(prompt) for prompt in job.prompts]
        for index, (prompt, sampling) in enumerate(product(prompts, job.samplings)):
            most = self.engine.max_model_len - len(prompt)
            if most < (job.max_tokens or 1):
                raise ApiError(
                    400,
                    f"the prompt has {len(prompt)} tokens, and max_tokens is {job.max_tokens or 'not given'}; "
                    f"accepted: at most {self.engine.max_model_len} together",
                    param="max_tokens" if most > 0 else "prompt",
                    code="context_length_exceeded",
                )
            id = f"{ticket.id}-{index}"
            self.engine.add_request(
                prompt,
                replace(sampling, max_tokens=job.max_tokens or most),
                request_id=id,
                salt=job.salt,
                priority=job.priority,
                stream_text=True,
            )
            added.append(id)
            self._choices[id] = Choice(ticket, index, len(prompt), StopFinder(job.stops))
        return sum(len(prompt) for prompt in prompts)

    def _token_ids(self, prompt: str | list[int] | Messages) -> list[int]:
        if isinstance(prompt, list):
            return prompt
        tokenizer = self.engine.model.tokenizer
        try:
            return tokenizer.encode(prompt) if isinstance(prompt, str) else tokenizer.chat(list(prompt))
        except RequestError:
            raise
        except Exception as error:  # whatever a text can do to a tokenizer or a template, it does to this request alone
            raise ApiError(400, f"the model's tokenizer cannot read it: {error}", param="prompt") from None

    def _abort(self, ticket: Ticket) -> None:
        for index in range(ticket.num_choices):
            id = f"{ticket.id}-{index}"
            if self._choices.pop(id, None) is not None:
                if id in self.engine.request_ids:
                    self.engine.abort(id)
                self.metrics.aborted()

    def _step(self) -> None:
        try:
            output = self.engine.step()
        except MemoryBudgetError as error:  # the engine has ended the requests of that step, and those alone
            left = self.engine.request_ids
            lost = {choice.ticket for id, choice in self._choices.items() if id not in left}
            if not lost:
                raise
            for ticket in lost:
                self._abort(ticket)
            self._tell([(ticket, ApiError(500, str(error))) for ticket in lost])
        else:
            self._publish(output)

    def _publish(self, output: StepOutput) -> None:
        news: list[tuple[Ticket, News]] = []
        for token in output.tokens:
            choice = self._choices[token.request_id]
            delta = choice.take(token, output.time_s, self.metrics)
            news.append((choice.ticket, delta))
            if delta.finish_reason is not None:
                del self._choices[token.request_id]
                if token.finish_reason is None:  # a stop text, of which the engine knows nothing
                    self.engine.abort(token.request_id)
        self._tell(news)

    def _tell(self, news: list[tuple[Ticket, News]]) -> None:
        if news:
            self._call(_deliver, news)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():  # closed: the server was told twice to stop, and nobody listens
            self._loop.call_soon_threadsafe(function, *arguments)


def _deliver(news: list[tuple[Ticket, News]]) -> None:
    for ticket, each in news:
        ticket.tell(each)
