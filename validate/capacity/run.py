"""The whole probe: two children, one that counts buffers and one that starts an engine, and what was predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from pagesim.engine.config import EngineConfig
from pagesim.sim.errors import UsageError
from pagesim.sim.sizes import format_bytes
from pagesim.validate.capacity.grain import grain
from pagesim.validate.capacity.predicted import Predicted
from pagesim.validate.capacity.result import CapacityResult
from pagesim.validate.capacity.seen import Held, Probed, Started
from pagesim.validate.child import in_child
from pagesim.validate.doctor.machine import free_bytes

WORK = "pagesim.validate.capacity.work"
TIMEOUT_S = 1800.0
LENGTHS = (2048, 512, 256, 128)  # the note's
OURS = ("ConfigError", "ModelError", "MemoryBudgetError", "RequestError")
CHILD = {
    "TRITON_INTERPRET": None,
    # Every buffer is a mapping of its own, and gone when it is freed: glibc would keep room that the limit counts.
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_ARENA_MAX": "1",
}
OnCount = Callable[[int], None]


def lengths_of(max_model_len: int, more: Sequence[int]) -> list[int]:
    """The lengths to hold: the note's and those asked for. Raises UsageError on one past `max_model_len`."""
    for tokens in more:
        if not 1 <= tokens <= max_model_len:
            raise UsageError(f"--at {tokens}; accepted: 1 to --max-model-len, {max_model_len}")
    return sorted({tokens for tokens in (*LENGTHS, *more) if tokens <= max_model_len}, reverse=True)


def validate_capacity(
    config: EngineConfig, lengths: Sequence[int], on_count: OnCount = lambda count: None
) -> CapacityResult:
    """Probe and start an engine of `config`, whose `max_model_len` is given.

    Raises UsageError, GeometryError and EngineError on what cannot be probed, ModuleNotFoundError without torch.
    """
    predicted = Predicted.of(config)
    check_memory(config, predicted)
    probed = Probed(**_ask("probe", config, {}, on_count))
    most_blocks = probed.limit_bytes // (config.block_size * predicted.cache.bytes_per_token)
    books = grain(config.device, probed.buffer_bytes, probed.weights_bytes).books_bytes(most_blocks)
    answer = _ask("start", config, {"lengths": list(lengths), "books_bytes": books}, on_count)
    if "refused" in answer:
        return CapacityResult(config, predicted, probed, answer["refused"], ())
    held = tuple(Held(**{**each, "findings": tuple(each["findings"])}) for each in answer["held"])
    return CapacityResult(config, predicted, probed, Started(**answer["started"]), held)


def check_memory(config: EngineConfig, predicted: Predicted) -> None:
    """On a CPU all that is probed is written, so it must be there. Raises UsageError."""
    if config.device != "cpu":
        return
    blocks = (config.num_blocks or 0) * config.block_size * predicted.cache.bytes_per_token
    sizes = {"--memory": config.memory, "--kv-bytes": config.kv_bytes, "--num-blocks": blocks}
    flag, wanted = next((flag, size) for flag, size in sizes.items() if size)
    free = free_bytes()
    if free is not None and wanted > free:
        raise UsageError(
            f"{flag} is {format_bytes(wanted)}, all of which is written, and {format_bytes(free)} are to be had; "
            "accepted: less"
        )


def _ask(work: str, config: EngineConfig, more: dict[str, Any], on_count: OnCount) -> Any:
    question = {"work": work, "config": asdict(config), **more}
    answer = in_child(WORK, question, timeout_s=TIMEOUT_S, environment=CHILD, advance=on_count)
    if answer.problem is None:
        return answer.value
    if answer.missing is not None:
        raise ModuleNotFoundError(answer.problem, name=answer.missing)
    if answer.kind in OURS:
        raise UsageError(answer.problem.removeprefix(f"{answer.kind}: "))
    raise UsageError(f"the {work} was not finished: {answer.problem}")
