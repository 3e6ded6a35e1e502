"""What a client is told when it cannot be served, in the JSON that OpenAI's clients read."""

from __future__ import annotations

from typing import Any

RETRY_AFTER_S = 1
TYPES = {500: "server_error", 503: "overloaded_error"}


class ApiError(Exception):
    """An answer other than 200. `param`: the field at fault. `code`: for programs, where OpenAI has one."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """{"error": {"message", "type", "param", "code"}}."""
        kind = TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        """When to come again, for one who may."""
        return {"Retry-After": str(RETRY_AFTER_S)} if self.status == 503 else {}
