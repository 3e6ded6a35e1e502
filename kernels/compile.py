"""Compiling a kernel for a card that is not there: Triton needs none, and bundles assembler and disassembler."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pagesim.kernels.errors import BackendError
from pagesim.kernels.sass import CodeCounts, count_code

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
ALIGNED = [["tt.divisibility", 16]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """`shared_bytes`: what one program needs; `ptx`: the assembly it came from."""

    counts: CodeCounts
    shared_bytes: int
    ptx: str


def compile_for(
    kernel: Any,
    capability: int,
    arguments: dict[str, str],
    aligned: set[str],
    constants: dict[str, int | bool],
    *,
    warps: int,
    stages: int,
) -> Compiled:
    """Compile `kernel` for `capability` (75 is 7.5).

    `arguments`: the type of each run-time argument ("*fp16", "i32"); pointers and `aligned` integers are multiples of
    16. An argument among the `constants` is compiled in, as Triton does with a 1. Raises BackendError in a process that
    runs the interpreter, or with a Triton that compiles in another way.
    """
    if not isinstance(kernel, triton.JITFunction):
        raise BackendError("this process runs Triton's interpreter; accepted: one started without TRITON_INTERPRET")
    if "constexprs" not in inspect.signature(ASTSource.__init__).parameters:
        raise BackendError(f"compiling without a card, by triton {triton.__version__}; accepted: triton 3.3 or newer")
    signature = {name: arguments.get(name, "constexpr") for name in kernel.arg_names}
    aligned = aligned | {name for name, kind in arguments.items() if kind.startswith("*")}
    attributes = {(place,): ALIGNED for place, name in enumerate(kernel.arg_names) if name in aligned}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": warps, "num_stages": stages}
    built = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return Compiled(count_code(built.asm["cubin"], TOOLS), built.metadata.shared, built.asm["ptx"])
