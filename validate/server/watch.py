"""Reads /metrics again and again while a trace is served, and notices when nobody answers any more."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pagesim.sim.errors import UsageError
from pagesim.validate.server.errors import GoneError, NonsenseError, RefusedError
from pagesim.validate.server.http import Server
from pagesim.validate.server.metrics import RUNNING, USAGE, read_metrics

EVERY_S = 0.2
GAUGES = {RUNNING, USAGE}
MOST_FAILURES = 3  # in a row: then it is gone


class Watch:
    """A thread. `highest`: the most of each gauge that was seen at all. `on_loss` is told once why it cannot go on."""

    def __init__(self, server: Server, on_loss: Callable[[str], None]) -> None:
        self.highest: dict[str, float] = {}
        self.readings = 0
        self._server, self._on_loss = server, on_loss
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, once the reading under way has."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._ended.wait(EVERY_S):
            try:
                values = read_metrics(self._server).values
            except (NonsenseError, UsageError) as error:
                self._on_loss(str(error))
                return
            except (GoneError, RefusedError) as error:
                failures += 1
                if failures == MOST_FAILURES:
                    self._on_loss(str(error))
                    return
            else:
                failures = 0
                self.readings += 1
                for name in GAUGES & values.keys():
                    self.highest[name] = max(values[name], self.highest.get(name, values[name]))
