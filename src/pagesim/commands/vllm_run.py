"""What `pagesim validate vllm` does with its options: drives a scheduler, or puts a trace on a server, and prints."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pagesim.commands.kernel import wide_console
from pagesim.commands.replay_setup import Pool, Setup, Wish
from pagesim.sim.errors import UsageError

if TYPE_CHECKING:
    from pagesim.validate.server.result import ServerResult
    from pagesim.validate.vllm.result import VllmResult


MOST_SPEED, MOST_TIMEOUT_S, MOST_VOCAB_SIZE = 1e9, 1e6, 2**31  # a clock and a token id have no room for more


class Result(Protocol):
    """Either of the two."""

    @property
    def source(self) -> str:
        """Where the requests come from."""
        ...

    def document(self) -> dict[str, Any]:
        """Plain values by name."""
        ...

    def table(self) -> list[list[str]]:
        """The first line is the head."""
        ...

    def lines(self) -> list[str]:
        """What stands under it."""
        ...


@dataclass(frozen=True, slots=True)
class ServerWish:
    """The server, as it was asked for. `num_blocks` and `block_size`: what its pool is expected to be."""

    address: str
    model: str | None
    speed: float
    timeout_s: float
    vocab_size: int
    num_blocks: int | None
    block_size: int | None

    def __post_init__(self) -> None:
        for flag, value, most in (
            ("--speed", self.speed, MOST_SPEED),
            ("--timeout", self.timeout_s, MOST_TIMEOUT_S),
            ("--vocab-size", self.vocab_size, MOST_VOCAB_SIZE),
        ):
            if not 0 < value <= most:
                raise UsageError(f"{flag} {value:g}; accepted: more than 0, up to {most:g}")


def drive_vllm(setup: Setup) -> VllmResult:
    """vLLM's scheduler beside the simulator. Raises UsageError."""
    from pagesim.sim.console import progress
    from pagesim.validate.replay.logical import replay_logically
    from pagesim.validate.vllm.made import check_importable
    from pagesim.validate.vllm.result import VllmResult
    from pagesim.validate.vllm.rules import check_rules
    from pagesim.validate.vllm.scheduling import vllm_machine
    from pagesim.validate.vllm.versions import installed_version

    experiment = setup.experiment
    check_rules(experiment.config)
    version = installed_version()
    with progress(f"vLLM {version} imported", None):
        check_importable()
    with progress("requests simulated, then scheduled by vLLM", 2 * len(experiment.samples)) as advance:
        logical = replay_logically(experiment, advance, vllm_machine)
    return VllmResult(version, setup.source, setup.step_time, experiment, logical)


def replay_on_server(asked: ServerWish, wish: Wish, rules: dict[str, Any]) -> ServerResult:
    """A trace on a server beside its prediction. `rules`: those the server was started with. Raises UsageError."""
    from pagesim.sim.console import progress
    from pagesim.validate.replay.prompts import Prompts
    from pagesim.validate.server.about import ask_about, pool_of
    from pagesim.validate.server.experiment import ServerExperiment
    from pagesim.validate.server.http import Server
    from pagesim.validate.server.measured import Measured, settled_or_why
    from pagesim.validate.server.prediction import predict
    from pagesim.validate.server.realtime import Sender, bodies
    from pagesim.validate.server.result import ServerResult
    from pagesim.validate.server.rows import rows

    server = Server(asked.address, asked.timeout_s)
    about = ask_about(server, asked.model)
    num_blocks, block_size = pool_of(about, asked.num_blocks, asked.block_size)
    if asked.block_size not in (None, block_size):
        raise UsageError(f"--block-size {asked.block_size}, and the server says {block_size}; accepted: leave it out")
    cache = about.before.cache
    rules = rules | {"block_size": block_size}
    if cache.prefix_caching is not None:
        rules["prefix_caching"] = _same_caching(cache.prefix_caching, rules["prefix_caching"])
    if about.max_model_len is not None:
        rules["max_model_len"] = about.max_model_len
    setup = wish.setup(rules, Pool(num_blocks, None, None), None)
    given = setup.experiment
    experiment = ServerExperiment.of(given.trace, given.config, given.step_time, asked.speed, asked.timeout_s)
    with progress("requests predicted", len(experiment.trace)) as advance:
        predicted = predict(experiment, advance)
    body = bodies(
        Prompts(experiment.trace, asked.vocab_size),
        about.model,
        secrets.token_hex(8),
        with_priority=given.config.policy == "priority",
    )
    with progress(f"requests answered by {about.model}", len(experiment.trace)) as advance:
        run = Sender(server, experiment, body, asked.timeout_s, advance).run()
    after, gone = settled_or_why(Server(asked.address, asked.timeout_s))
    measured = Measured.of(run, experiment.trace, about.before, after)
    said = None if cache.num_blocks is None or cache.block_size is None else cache.num_blocks * cache.block_size
    told = None if asked.num_blocks is None else asked.num_blocks * block_size
    return ServerResult(
        server.address,
        about.model,
        setup.source,
        setup.step_time,
        experiment,
        run,
        measured,
        rows(experiment, said, told, measured, run.highest, predicted),
        about.before.missing,
        run.broke_off or gone,
    )


def hand_out(result: Result, as_json: bool) -> None:
    """Print it."""
    from pagesim.sim.jsontext import dumps

    if as_json:
        print(dumps(result.document()))
        return
    console = wide_console()
    console.print(result.source)
    _print_table(console, result.table())
    for line in result.lines():
        console.print(line, soft_wrap=True)
    sys.stdout.flush()  # before what stderr says of it


def _same_caching(server: bool, told: bool) -> bool:
    if told and not server:
        raise UsageError("--prefix-caching, and the server says that it has none; accepted: leave it out")
    return server


def _print_table(console: Any, lines: list[list[str]]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    head, *rows = lines
    table = Table(*head, box=SIMPLE, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    console.print(table)
