"""What can go wrong on a caller's side: one base error, which the command line turns into one line and exit status 2.

Our own broken invariants are `assert`s and are not here.
"""


class PagesimError(Exception):
    """A caller's mistake: the message is one line that names the offending value and what would be accepted."""


class UsageError(PagesimError):
    """An option, or a combination of options, that makes no sense."""


class TraceError(PagesimError):
    """A trace, or the file of one, that cannot be used: names the file, line, field and value."""


class GeometryError(PagesimError):
    """A model, device or memory budget that is unknown or does not hold together."""
