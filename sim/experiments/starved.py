"""A pool that is too small, with the cache off and on, and one that is not: starved, starved-cached, unstarved."""

from __future__ import annotations

import numpy as np

from pagesim.sim.experiments.experiment import Experiment, Logs, Run, tokens_per_s
from pagesim.sim.experiments.row import Row, Standing, exact, held_out, ours
from pagesim.sim.serving.config import ServingConfig
from pagesim.sim.serving.log import ServingLog
from pagesim.sim.serving.steptime import StepTime
from pagesim.sim.trace import Trace

REQUESTS, PROMPT, ANSWER = 200, 9, 1015
BLOCK = 16
POOL, STARVED_POOL = 929_856 // BLOCK, 77_312 // BLOCK
UNSTARVED_TOKENS_PER_S, STARVED_TOKENS_PER_S = 4476.0, 3406.0
LENGTHS = (
    "Answers of 1,015 tokens after prompts of 9 (the note: about 1,015), all there at once; token budget 8,192; the "
    f"starved pool has {STARVED_POOL:,} blocks of {BLOCK}, the roomy one {POOL:,}."
)
NUM_BURSTS = 20
BURST_S = 0.02  # about a step


def alike(requests: int, prompt: int, answer: int) -> Trace:
    """Requests of the same length that arrive together."""
    return Trace(np.zeros(requests), np.full(requests, prompt), np.full(requests, answer))


def unstarved_run(step_time: StepTime) -> Run:
    """Room for all."""
    return Run(alike(REQUESTS, PROMPT, ANSWER), ServingConfig(num_blocks=POOL, token_budget=8192), step_time)


def starved_run(step_time: StepTime) -> Run:
    """Oversubscribed two and a half times."""
    return unstarved_run(step_time).with_config(num_blocks=STARVED_POOL)


def burst(run: Run, seed: int) -> Run:
    """The same requests, not quite together: at random among the starts of up to 20 steps, which are drawn too."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.integers(0, rng.integers(2, 21), len(run.trace))) * np.float64(BURST_S)
    return Run(run.trace.with_arrivals(arrival_s), run.config, run.step_time)


def _bursts(run: Run) -> dict[str, Run]:
    return {f"burst {seed}": burst(run, seed) for seed in range(NUM_BURSTS)}


def _of_bursts(logs: Logs) -> list[ServingLog]:
    return [log for name, log in logs.items() if name.startswith("burst")]


def starved(step_time: StepTime) -> Experiment:
    """Preemption by recomputation, counted and timed."""
    run = starved_run(step_time)
    runs = {
        "starved": run,
        "budget 2,048": run.with_config(token_budget=2048),
        "unstarved": unstarved_run(step_time),
        **_bursts(run),
    }
    return Experiment(
        "starved",
        "What a pool too small by two and a half times costs: no request, some time.",
        LENGTHS,
        runs,
        _starved,
    )


def _starved(logs: Logs) -> list[Row]:
    log, unstarved = logs["starved"], logs["unstarved"]
    rate, least = tokens_per_s(log), min(len(one.preemptions) for one in _of_bursts(logs))
    most = max(len(one.preemptions) for one in _of_bursts(logs))
    alone = "vLLM's own scheduler, driven without a model."
    return [
        exact("starved", "requests that finish", REQUESTS, int(np.isfinite(log.finish_s).sum()), "", "Nobody is lost."),
        exact("starved", "preemptions, scheduler alone", 184, len(log.preemptions), "", alone),
        exact("starved", "steps, scheduler alone", 1908, log.num_steps, "", alone),
        exact("starved", "recomputed, scheduler alone", 101_838, log.recomputed_tokens, "tokens", alone),
        exact("starved", "preemptions, scheduler alone, budget 2,048", 168, len(logs["budget 2,048"].preemptions), "",
              alone),
        held_out("starved", "preemptions on the card", (189,), len(log.preemptions), "",
                 "The count hangs on when requests reach the scheduler, which is not known."),
        held_out("starved", "fewest preemptions if arrivals are spread", (167,), least, "",
                 f"{NUM_BURSTS} patterns of our own; the published figure is of 62 others, not given."),
        held_out("starved", "most preemptions if arrivals are spread", (184,), most, "",
                 f"{NUM_BURSTS} patterns of our own; 189 and 195, measured on the card, lie beyond them."),
        held_out("starved", "throughput", (STARVED_TOKENS_PER_S,), rate, "tokens/s", "Preemption is in no fitted row."),
        held_out("starved_repeats", "throughput, cache off, twice", (3305, 3291), rate, "tokens/s",
                 "The note's three runs with the cache off span 3.5%."),
        held_out("unstarved", "throughput lost to a starved pool", (1 - STARVED_TOKENS_PER_S / UNSTARVED_TOKENS_PER_S,),
                 1 - rate / tokens_per_s(unstarved), "share", "Tokens come back at the speed of a prefill."),
    ]  # fmt: skip


def unstarved(step_time: StepTime) -> Experiment:
    """The same requests with room for all."""
    runs = {"unstarved": unstarved_run(step_time)}
    return Experiment(
        "unstarved", "The same requests as in `starved`, in a pool with room for all.", LENGTHS, runs, _unstarved
    )


def _unstarved(logs: Logs) -> list[Row]:
    log = logs["unstarved"]
    return [
        exact("unstarved", "preemptions", 0, len(log.preemptions), "", "There is room for all."),
        Row("unstarved", "throughput", (UNSTARVED_TOKENS_PER_S,), tokens_per_s(log), "tokens/s", Standing.FITTED,
            "A whole simulated run is one equation of the fit."),
    ]  # fmt: skip


def starved_cached(step_time: StepTime) -> Experiment:
    """What a prefix cache finds of what was preempted."""
    run = starved_run(step_time).with_config(prefix_caching=True)
    runs = {"cache on": run, **_bursts(run)}
    shows = "How much of what preemption throws away is still in the prefix cache when it is asked for: hardly any."
    return Experiment("starved-cached", shows, LENGTHS, runs, _starved_cached)


def _starved_cached(logs: Logs) -> list[Row]:
    log = logs["cache on"]
    returns, asked, found = _returns(log)
    spread = [_returns(one)[2] for one in _of_bursts(logs)]
    alone = "vLLM's own scheduler, driven without a model."
    chaos = "As chaotic in the timing of arrivals as the preemptions."
    return [
        exact("starved_cached", "returns, scheduler alone", 184, returns, "", alone),
        exact("starved_cached", "tokens asked, scheduler alone", 102_040, asked, "tokens", alone),
        exact("starved_cached", "tokens found, scheduler alone", 5_488, found, "tokens", alone),
        held_out("starved_cached", "returns on the card", (195,), returns, "", chaos),
        held_out("starved_cached", "tokens asked on the card", (108_196,), asked, "tokens", chaos),
        held_out("starved_cached", "tokens found on the card", (5_408,), found, "tokens", chaos),
        held_out("starved_cached", "tokens asked on the card, repeat", (75_012,), asked, "tokens",
                 "No pattern of arrivals that was tried asks for so few."),
        held_out("starved_cached", "tokens found on the card, repeat", (32,), found, "tokens",
                 "No pattern of arrivals that was tried finds so few: 3,456 is the least."),
        ours("starved_cached", "fewest tokens found if arrivals are spread", min(spread), "tokens",
             f"{NUM_BURSTS} patterns."),
        ours("starved_cached", "most tokens found if arrivals are spread", max(spread), "tokens",
             f"{NUM_BURSTS} patterns."),
        held_out("starved_repeats", "throughput, cache on", (3256,), tokens_per_s(log), "tokens/s",
                 "The note has the cache cost 1%; here its lookups cost no time."),
    ]  # fmt: skip


def _returns(log: ServingLog) -> tuple[int, int, int]:
    """Returns after preemption, tokens they asked for, tokens they found."""
    returns = log.admissions[log.is_return]
    return len(returns), int(returns["known_tokens"].sum()), int(returns["hit_tokens"].sum())
