"""What a caller of the kernels can get wrong. The command line turns each of these into one line and exit status 2."""


class KernelError(Exception):
    """A caller's mistake: one line that names the offending value and what would be accepted."""


class InputError(KernelError):
    """A tensor, table or option whose dtype, shape, layout or value a kernel cannot take."""


class UnsupportedError(KernelError):
    """A combination that is well formed and that this backend does not serve: a block size, a dtype, a card."""


class BackendError(KernelError):
    """Triton was asked for and cannot run here. Nothing else is run in its place."""
