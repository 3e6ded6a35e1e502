"""The scheduler under any options, arrivals, stops and aborts: everybody is served, and finds its own past."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from without_model import AuditedScheduler, check_step, scheduler

from pagesim.engine.errors import RequestError
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.sequence import FinishReason, Sequence

MAX_MODEL_LEN = 24
CACHES = ["reservation", "exact-fit:first", "exact-fit:best", "exact-fit:next", "exact-fit:worst"]


@dataclass(frozen=True)
class Wish:
    """A request before it is one."""

    arrival: int
    prompt: list[int]
    max_tokens: int
    num_forks: int
    salt: str | None
    priority: int
    aborted_at: int | None

    def sequence(self, name: str, forks: bool) -> Sequence:
        others = tuple(
            Sequence(f"{name}.{i}", self.prompt, SamplingParams(max_tokens=self.max_tokens), salt=self.salt)
            for i in range(self.num_forks if forks else 0)
        )
        return Sequence(
            name,
            self.prompt,
            SamplingParams(max_tokens=self.max_tokens),
            salt=self.salt,
            priority=self.priority,
            forks=others,
        )


def wishes(random: Random, count: int) -> list[Wish]:
    """Few tokens, so that prompts often agree, and answers long for the pool, so that it runs out."""
    return [
        Wish(
            arrival=random.choice([0, 0, random.randrange(12)]),
            prompt=random.choices([0, 1], k=random.randint(1, 14)),
            max_tokens=random.randint(1, 20),
            num_forks=random.choice([0, 0, 0, 1, 3]),
            salt=random.choice([None, None, "x"]),
            priority=random.randrange(3),
            aborted_at=random.choice([None, None, random.randrange(30)]),
        )
        for _ in range(count)
    ]


options = st.fixed_dictionaries(
    {
        "cache": st.sampled_from(["paged"] * 12 + CACHES),
        "block_size": st.integers(1, 7),
        "token_budget": st.sampled_from([2, 5, 16, 64]),
        "max_num_seqs": st.integers(1, 8),
        "prefix_caching": st.booleans(),
        "chunked_prefill": st.booleans(),
        "long_prefill_threshold": st.none() | st.integers(1, 9),
        "reserve_full_isl": st.booleans(),
        "watermark": st.sampled_from([0.0, 0.1, 0.3]),
        "policy": st.sampled_from(["fcfs", "priority"]),
    }
)


def build(drawn: dict[str, object], num_slots: int) -> AuditedScheduler:
    """Options that go together, over a pool of `num_slots`."""
    chosen = dict(drawn)
    if chosen["cache"] != "paged":
        chosen["prefix_caching"] = False
    if not chosen["chunked_prefill"]:
        chosen |= {"token_budget": 64, "long_prefill_threshold": None}
    size = chosen["block_size"]
    assert isinstance(size, int)
    return scheduler(num_blocks=max(2, -(-num_slots // size)), max_model_len=MAX_MODEL_LEN, **chosen)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    drawn=options,
    num_slots=st.integers(MAX_MODEL_LEN, 70),
    count=st.integers(3, 16),
    seed=st.integers(0, 2**32),
)
def test_everybody_is_served(drawn: dict[str, object], num_slots: int, count: int, seed: int) -> None:
    random = Random(seed)
    requests = wishes(random, count)
    engine = build(drawn, num_slots)
    everybody: list[Sequence] = []
    first_admissions: list[Sequence] = []
    for now in range(6000):
        for number, wish in enumerate(requests):
            if wish.arrival == now:
                new = wish.sequence(str(number), forks=engine.cache.is_paged)
                try:
                    engine.add(new)
                except RequestError as error:
                    note(str(error))
                    continue
                everybody += [new, *new.forks]
            if wish.aborted_at == now and str(number) in engine.sequences:
                engine.abort(str(number))
        step = engine.schedule()
        check_step(engine, step)
        first_admissions += [each for each, _ in step.admitted if each.num_preemptions == 0 and not each.outputs]
        sampled = {each.id: random.choice([0, 1]) for chunk in step.chunks for each in chunk.samplers}
        stopped = {id for id in sampled if random.random() < 0.05}
        finished = engine.finish_step(step, sampled, stopped)
        assert all(len(each.tokens) == each.max_length or each.id in stopped for each in finished)
        if not engine.has_work and now > 12:
            break
    engine.cache.check()
    assert not engine.has_work and not engine.sequences and engine.cache.blocks_used == 0
    assert all(each.finish_reason is not None for each in everybody)
    assert all(each.outputs for each in everybody if each.finish_reason is not FinishReason.ABORT)
    if engine.config.policy == "fcfs":
        ranks = [each.rank for each in first_admissions]
        assert ranks == sorted(ranks)  # nobody overtakes
    if not engine.cache.is_paged:
        assert engine.totals.preemptions == 0


@settings(max_examples=60, deadline=None)
@given(count=st.integers(2, 10), size=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_under_fcfs_the_running_stand_in_order_of_arrival_and_before_all_who_wait(
    count: int, size: int, seed: int
) -> None:
    """So that the last of the list is the last who came, and the preempted belong in front of the queue."""
    engine = scheduler(num_blocks=-(-MAX_MODEL_LEN // size) + 1, max_model_len=MAX_MODEL_LEN, block_size=size)
    for number, wish in enumerate(wishes(Random(seed), count)):
        engine.add(wish.sequence(str(number), forks=True))
    while engine.has_work:
        step = engine.schedule()
        ranks = [each.rank for each in [*engine.running, *engine.waiting]]
        assert ranks == sorted(ranks)
        engine.finish_step(step, {each.id: 1 for chunk in step.chunks for each in chunk.samplers})
