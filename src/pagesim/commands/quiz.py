"""`pagesim quiz`: exercises with answers, for a course."""

from __future__ import annotations

from typing import Annotated

import typer

from pagesim.commands.kernel import one_line_errors
from pagesim.commands.run_options import option
from pagesim.sim.errors import UsageError


def _of(flag: str, help: str) -> typer.models.OptionInfo:
    return option(flag, help=help)


def quiz(
    context: typer.Context,
    topic: Annotated[
        str | None, option("--topic", metavar="placement|paging|prefix|preemption|kernel", help="What it is about.")
    ] = None,
    seed: Annotated[int, option("--seed", "-s", help="Of what is drawn.")] = 0,
    count: Annotated[int, option("--count", "-n", help="Exercises.")] = 1,
    compute: Annotated[bool, option("--compute", "-c", help="Show the answers and their working.")] = False,
    explicit: Annotated[
        str | None,
        option(
            "--explicit",
            metavar="SEQUENCE",
            help="Your own sequence. placement: +10,+20,-0; paging: also 0+5; prefix: +AB,+x:ABC2,-0; preemption: "
            "PROMPT:ANSWER@STEP,...; kernel: the block table, 5,2,9.",
        ),
    ] = None,
    size: Annotated[int | None, _of("--size", "placement: slots of the pool. [default: 64]")] = None,
    policy: Annotated[
        str | None, _of("--policy", "placement: first, best, next, worst or buddy. [default: first]")
    ] = None,
    num_blocks: Annotated[
        int | None, _of("--num-blocks", "paging, prefix, preemption: blocks of the pool. [default: 12, 9, 8]")
    ] = None,
    block_size: Annotated[int | None, _of("--block-size", "Tokens in a block. [default: 4; kernel: 16]")] = None,
    ops: Annotated[
        int | None, _of("--ops", "placement, paging, prefix: operations in an exercise. [default: 12, 9, 8]")
    ] = None,
    max_request: Annotated[
        int | None, _of("--max-request", "placement, paging: the longest sequence drawn. [default: 24, 14]")
    ] = None,
    percent_arrivals: Annotated[
        int | None,
        _of("--percent-arrivals", "placement, paging, prefix: of 100 operations drawn. [default: 70, 60, 60]"),
    ] = None,
    lookups: Annotated[int | None, _of("--lookups", "paging, kernel: positions to find. [default: 3]")] = None,
    max_blocks: Annotated[
        int | None, _of("--max-blocks", "prefix: full blocks of the longest prompt drawn. [default: 4]")
    ] = None,
    letters: Annotated[int | None, _of("--letters", "prefix: different texts of a block. [default: 3]")] = None,
    percent_salted: Annotated[
        int | None, _of("--percent-salted", "prefix: prompts with a salt, of 100 drawn. [default: 15]")
    ] = None,
    token_budget: Annotated[
        int | None, _of("--token-budget", "preemption: tokens computed in a step, at most. [default: 16]")
    ] = None,
    max_num_seqs: Annotated[
        int | None, _of("--max-num-seqs", "preemption: sequences that run at once, at most. [default: 8]")
    ] = None,
    victim: Annotated[
        str | None,
        _of("--victim", "preemption: who is put back: last, longest, shortest, fewest-blocks. [default: last]"),
    ] = None,
    requests: Annotated[int | None, _of("--requests", "preemption: how many. [default: 4]")] = None,
    max_prompt: Annotated[
        int | None, _of("--max-prompt", "preemption: the longest prompt drawn. [default: 10]")
    ] = None,
    max_output: Annotated[int | None, _of("--max-output", "preemption: the longest answer drawn. [default: 9]")] = None,
    last_arrival: Annotated[
        int | None, _of("--last-arrival", "preemption: the last step in which one arrives. [default: 2]")
    ] = None,
    seq_len: Annotated[int | None, _of("--seq-len", "kernel: tokens in the cache. [default: 40]")] = None,
    tile: Annotated[int | None, _of("--tile", "kernel: positions walked at a time. [default: 16]")] = None,
    heads: Annotated[int | None, _of("--heads", "kernel: query heads. [default: 4]")] = None,
    kv_heads: Annotated[int | None, _of("--kv-heads", "kernel: KV heads. [default: 2]")] = None,
    head_dim: Annotated[int | None, _of("--head-dim", "kernel: numbers in a head. [default: 64]")] = None,
    item_bytes: Annotated[int | None, _of("--item-bytes", "kernel: bytes of a number. [default: 2]")] = None,
    as_json: Annotated[bool, option("--json", help="Print JSON, schema pagesim.quiz/1.")] = False,
) -> None:
    """Ask what an allocator, a block table, a prefix cache, a scheduler or a kernel does next; -c says so, and why.

    The same seed asks the same questions on every machine.
    """
    from pagesim.kernels import account
    from pagesim.sim.console import progress
    from pagesim.sim.jsontext import dumps
    from pagesim.sim.quiz.text import Quiz
    from pagesim.sim.quiz.topics import TOPICS
    from pagesim.sim.quiz.topics import topic as make

    if topic is None:
        raise UsageError(f"no --topic given; accepted: {', '.join(TOPICS)}")
    others = ("topic", "seed", "count", "compute", "explicit", "as_json")
    said = {name: value for name, value in context.params.items() if value is not None and name not in others}
    with one_line_errors(), progress("exercises", count) as advance:
        asked = Quiz.of(make(topic, said, explicit is not None, account), seed, count, explicit, advance)
    if as_json:
        print(dumps(asked.document(compute)))
    else:
        print("\n".join(asked.lines(compute)))
