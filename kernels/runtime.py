"""Whether Triton can run here, and on what. Where it cannot, that is said; nothing is run in its place."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import triton

from pagesim.kernels.decode_reduce_kernel import decode_reduce_kernel
from pagesim.kernels.errors import BackendError
from pagesim.kernels.settings import Card

INTERPRETER_CARD = Card(capability=80, num_multiprocessors=1)


def interpreting() -> bool:
    """Whether the kernels were loaded under TRITON_INTERPRET=1, and so run on CPU tensors, slowly, for tests."""
    return not isinstance(decode_reduce_kernel, triton.JITFunction)


def card_of(device: torch.device) -> Card:
    """The card behind `device`. Raises BackendError where Triton kernels do not run on it."""
    if device.type == "cuda" and torch.version.cuda is not None:
        facts = torch.cuda.get_device_properties(device)
        return Card(facts.major * 10 + facts.minor, facts.multi_processor_count)
    if device.type == "cpu" and interpreting():
        return INTERPRETER_CARD
    raise BackendError(
        f"the Triton kernels cannot run on {device}; accepted: a CUDA device, or CPU tensors in a process started with "
        "TRITON_INTERPRET=1"
    )


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make `device` the current one for a launch."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
