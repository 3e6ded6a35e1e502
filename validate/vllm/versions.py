"""Which releases of vLLM can be driven: those whose scheduler was driven and compared, and no others."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pagesim.sim.errors import UsageError

SUPPORTED = ("0.29.0", "0.30.0")
ACCEPTED = ", ".join(SUPPORTED)


def installed_version() -> str:
    """The release that is installed, found without importing it.

    Raises UsageError if there is none, or if it is not among SUPPORTED: inside, vLLM has no stable interface.
    """
    try:
        found = version("vllm")
    except PackageNotFoundError:
        raise UsageError(
            f"vLLM is not installed; accepted: pip install vllm=={SUPPORTED[0]}, or --server URL for one that runs"
        ) from None
    if found.partition("+")[0] not in SUPPORTED:  # behind the plus: how it was built
        raise UsageError(f"vLLM {found} is installed, whose scheduler has not been driven; accepted: {ACCEPTED}")
    return found
