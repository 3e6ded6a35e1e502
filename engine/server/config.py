"""The server's own options, each with its one default."""

from __future__ import annotations

from dataclasses import dataclass

from pagesim.engine.errors import ConfigError

LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where it listens and what it takes on.

    `port` 0: any that is free. `max_waiting`: once so many samples wait for admission, further requests are turned
    away. `max_body_bytes`: of one request. `grace_s`: how long requests in flight may go on after SIGTERM.
    `name`: the model's in requests and answers; None: as it was loaded.

    Raises ConfigError that names the field, its value and what would be accepted.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_waiting: int = 512
    max_body_bytes: int = 4 * 2**20
    grace_s: int = 10
    name: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= LAST_PORT:
            raise ConfigError(f"port is {self.port}; accepted: 0 (any that is free) to {LAST_PORT}")
        for field in ("max_waiting", "max_body_bytes"):
            if getattr(self, field) < 1:
                raise ConfigError(f"{field} is {getattr(self, field)}; accepted: at least 1")
        if self.grace_s < 0:
            raise ConfigError(f"grace_s is {self.grace_s}; accepted: at least 0")
        if self.name == "":
            raise ConfigError("the model's name is empty; accepted: at least one character")
