"""What a caller of the engine can get wrong. The command line turns each into one line and exit status 2.

Our own broken invariants are `assert`s and are not here.
"""


class EngineError(Exception):
    """A caller's mistake: the message is one line that names the offending value and what would be accepted."""


class ConfigError(EngineError):
    """An option of the engine, or a combination of options, that makes no sense."""


class ModelError(EngineError):
    """A model directory, its config.json or its weights, that is missing or that the decoder cannot run."""


class MemoryBudgetError(EngineError):
    """A cache that does not fit the memory it was given, or one too small for a single sequence."""


class RequestError(EngineError):
    """A request that could never be served, or that is malformed: told on arrival."""
