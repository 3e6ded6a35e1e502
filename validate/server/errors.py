"""What can go wrong with a server: it answers no more, it answers nonsense, or it turns a request away."""

from __future__ import annotations


class GoneError(Exception):
    """No answer, or a connection that closed in the middle of one."""


class NonsenseError(Exception):
    """An answer that is not what the protocol says: nothing that it says can be believed."""


class RefusedError(Exception):
    """A request that the server turned away, or gave up, and said so."""
