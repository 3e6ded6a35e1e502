"""The scheduler's rules one at a time, on pools of a few blocks of four tokens."""

from __future__ import annotations

import pytest
from without_model import AuditedScheduler, check_step, drive, sample, scheduler, sequence

from pagesim.engine.errors import ConfigError, RequestError
from pagesim.engine.sampling import SamplingParams
from pagesim.engine.sequence import FinishReason, Sequence, Status
from pagesim.engine.step import Step


def turn(scheduler: AuditedScheduler, stopped: frozenset[str] = frozenset()) -> tuple[Step, list[str]]:
    """One step: the step, and who finished."""
    step = scheduler.schedule()
    check_step(scheduler, step)
    return step, [each.id for each in scheduler.finish_step(step, sample(step), stopped)]


def tokens(step: Step) -> dict[str, int]:
    return {chunk.sequence.id: chunk.num_tokens for chunk in step.chunks}


def add(scheduler: AuditedScheduler, *sequences: Sequence) -> None:
    for each in sequences:
        scheduler.add(each)


def test_prompt_and_answer_hold_one_slot_less_than_they_have_tokens() -> None:
    engine = scheduler(num_blocks=4)
    add(engine, sequence("a", 8, 5))
    used = [turn(engine)[0].blocks_used for _ in range(5)]
    assert used == [2, 3, 3, 3, 3] and not engine.has_work  # 8 + 5 - 1 = 12 slots


def test_a_step_shares_its_budget_between_decodes_and_chunks() -> None:
    engine = scheduler(num_blocks=20, token_budget=6)
    add(engine, sequence("a", 3, 5), sequence("b", 8, 2))
    assert [tokens(turn(engine)[0]) for _ in range(4)] == [
        {"a": 3, "b": 3},
        {"a": 1, "b": 5},
        {"a": 1, "b": 1},
        {"a": 1},
    ]


def test_a_prompt_ahead_may_take_the_whole_budget() -> None:
    engine = scheduler(num_blocks=20, token_budget=4)
    first, second = sequence("a", 9, 2), sequence("b", 2, 3)
    add(engine, first)
    turn(engine)
    add(engine, second)
    step, _ = turn(engine)
    assert tokens(step) == {"a": 4} and step.waiting == 1
    assert tokens(turn(engine)[0]) == {"a": 1, "b": 2}


def test_the_threshold_bounds_each_sequence_in_a_step() -> None:
    engine = scheduler(num_blocks=20, token_budget=16, long_prefill_threshold=3)
    add(engine, sequence("a", 7, 1), sequence("b", 4, 1))
    assert [tokens(turn(engine)[0]) for _ in range(3)] == [{"a": 3, "b": 3}, {"a": 3, "b": 1}, {"a": 1}]


def test_without_chunks_a_prompt_waits_until_the_budget_holds_it_whole() -> None:
    engine = scheduler(num_blocks=20, token_budget=16, max_model_len=16, chunked_prefill=False)
    add(engine, sequence("a", 10, 2), sequence("b", 8, 2), sequence("c", 1, 2))
    assert [tokens(turn(engine)[0]) for _ in range(3)] == [{"a": 10}, {"a": 1, "b": 8, "c": 1}, {"b": 1, "c": 1}]


def test_without_chunks_the_budget_must_hold_the_longest_sequence() -> None:
    with pytest.raises(
        ConfigError, match="token_budget is 63 without chunked_prefill; accepted: at least max_model_len, 64"
    ):
        scheduler(token_budget=63, max_model_len=64, chunked_prefill=False)


def test_nobody_overtakes_the_head() -> None:
    engine = scheduler(num_blocks=6)
    add(engine, sequence("a", 12, 9), sequence("b", 12, 1), sequence("c", 1, 1))
    step, _ = turn(engine)
    assert (step.running, step.waiting, tokens(step)) == (1, 2, {"a": 12})


def test_admission_asks_for_the_whole_prompt_or_the_first_chunk() -> None:
    for reserve, expected in ((True, 1), (False, 2)):
        engine = scheduler(num_blocks=8, token_budget=12, reserve_full_isl=reserve)
        add(engine, sequence("a", 8, 9), sequence("b", 24, 1))
        assert turn(engine)[0].running == expected


def test_the_watermark_counts_the_null_block_and_spares_a_lone_sequence() -> None:
    engine = scheduler(num_blocks=10, watermark=0.2)  # 2 blocks
    add(engine, sequence("a", 36, 1))
    assert turn(engine)[0].running == 1  # alone, it may take all 9
    engine = scheduler(num_blocks=10, watermark=0.2)
    add(engine, sequence("a", 20, 2), sequence("b", 8, 2))
    assert turn(engine)[0].running == 2  # 5 and 2, and 2 stay free
    engine = scheduler(num_blocks=10, watermark=0.2)
    add(engine, sequence("a", 20, 2), sequence("b", 9, 2))
    assert turn(engine)[0].running == 1


def test_max_num_seqs_bounds_who_runs() -> None:
    engine = scheduler(num_blocks=20, max_num_seqs=2)
    add(engine, *(sequence(name, 1, 2) for name in "abc"))
    assert [turn(engine)[0].running for _ in range(4)] == [2, 2, 1, 1]


def test_the_preempted_keep_their_tokens_and_come_back_in_front() -> None:
    engine = scheduler(num_blocks=6)
    a, b, c = sequence("a", 8, 8), sequence("b", 7, 4), sequence("c", 2, 2)
    add(engine, a, b)
    turn(engine)
    add(engine, c)
    turn(engine)  # a takes its third block; all are held
    assert engine.cache.blocks_used == 5 and engine.waiting[0] is c
    step, _ = turn(engine)  # b needs a third
    assert [each.id for each in step.preempted] == ["b"] and not step.admitted
    assert engine.waiting[0] is b and (b.num_computed, len(b.outputs), b.num_preemptions) == (0, 2, 1)
    assert list(engine.waiting) == [b, c]
    list(drive(engine, {}))
    assert len(b.outputs) == 4 and engine.totals.recomputed_tokens == 8


def test_the_figures_of_returns_are_kept_apart() -> None:
    engine = scheduler(num_blocks=6, prefix_caching=True)
    add(engine, sequence("a", 8, 8), sequence("b", 7, 4))
    list(drive(engine, {}))
    totals = engine.totals
    assert (totals.prefix_queries_first, totals.prefix_hits_first) == (15, 0)
    assert totals.preemptions == 1 and totals.prefix_queries_return == 9


def test_by_priority_the_least_important_goes_and_may_already_have_had_its_tokens() -> None:
    engine = scheduler(num_blocks=7, policy="priority")
    add(engine, sequence("late", 8, 8, priority=1))
    turn(engine)
    add(engine, sequence("urgent", 8, 8, priority=0), sequence("other", 2, 8, priority=0))
    assert turn(engine)[0].blocks_used == 3 + 2 + 1
    step, _ = turn(engine)
    assert [each.id for each in step.preempted] == ["late"]
    assert tokens(step) == {"urgent": 1, "other": 1} and step.scheduled_tokens == 2 and step.running == 2


def test_by_priority_a_requester_that_goes_itself_ends_the_walk() -> None:
    engine = scheduler(num_blocks=5, policy="priority")
    add(engine, sequence("late", 7, 8, priority=1))
    turn(engine)
    add(engine, sequence("urgent", 5, 8, priority=0))
    assert tokens(turn(engine)[0]) == {"late": 1, "urgent": 5}
    step, _ = turn(engine)
    assert [each.id for each in step.preempted] == ["late"]
    assert tokens(step) == {} and step.running == 1  # urgent, behind it, needs no block and gets nothing either
    assert tokens(turn(engine)[0]) == {"urgent": 1}


def test_blocks_that_were_scheduled_and_then_not_computed_cannot_be_found() -> None:
    engine = scheduler(
        num_blocks=8, policy="priority", prefix_caching=True, long_prefill_threshold=8, reserve_full_isl=False
    )
    late = sequence("late", 24, 1, priority=1)
    add(engine, late)
    turn(engine)
    add(engine, sequence("urgent", 4, 2, priority=0))
    turn(engine)
    step, _ = turn(engine)  # late gets two blocks for its last 8 tokens, then urgent needs one
    assert step.preempted == (late,) and tokens(step) == {"urgent": 1}
    assert turn(engine)[0].admitted == ((late, 16),)


def test_by_priority_the_waiting_are_ordered_and_equals_by_arrival() -> None:
    engine = scheduler(num_blocks=40, max_num_seqs=1, policy="priority")
    add(engine, *(sequence(name, 1, 1, priority=rank) for name, rank in [("a", 2), ("b", 1), ("c", 2), ("d", 1)]))
    assert [name for _ in range(4) for name in turn(engine)[1]] == ["b", "d", "a", "c"]


def test_under_fcfs_a_priority_says_nothing() -> None:
    engine = scheduler(num_blocks=40, max_num_seqs=1)
    add(engine, sequence("a", 1, 1, priority=5), sequence("b", 1, 1, priority=1))
    assert [name for _ in range(2) for name in turn(engine)[1]] == ["a", "b"]


def test_a_stop_ends_a_sequence_early_and_gives_its_blocks_back() -> None:
    engine = scheduler(num_blocks=4)
    each = sequence("a", 4, 8)
    add(engine, each)
    assert turn(engine, frozenset("a"))[1] == ["a"]
    assert each.finish_reason is FinishReason.STOP and len(each.outputs) == 1 and engine.cache.blocks_used == 0


def test_an_answer_ends_at_max_model_len() -> None:
    engine = scheduler(num_blocks=4, max_model_len=8)
    each = sequence("a", 6, 100)
    add(engine, each)
    list(drive(engine, {}))
    assert len(each.tokens) == 8 and each.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "options", "message"),
    [
        (64, 1, {}, "the prompt of request 'a' has 64 tokens; accepted: at most 63, one less than max_model_len"),
        (30, 4, {}, "request 'a' needs 33 tokens of cache; accepted: at most the pool's 32"),
        (30, 8, {"cache": "exact-fit"}, "request 'a' needs 37 tokens of cache; accepted: at most the pool's 36"),
    ],
)
def test_what_can_never_be_served_is_turned_away(
    prompt: int, max_tokens: int, options: dict[str, object], message: str
) -> None:
    engine = scheduler(num_blocks=9, **options)
    with pytest.raises(RequestError) as error:
        engine.add(sequence("a", prompt, max_tokens))
    assert str(error.value) == message and not engine.has_work and not engine.sequences


def test_the_largest_that_fits_is_served() -> None:
    engine = scheduler(num_blocks=9)
    rows = list(drive(engine, {0: [sequence("a", 29, 4), sequence("b", 29, 4)]}))
    assert sorted(id for row in rows for id in row["finished"]) == ["a", "b"]
    assert max(row["blocks_used"] for row in rows) == 8


def test_an_id_names_one_request() -> None:
    engine = scheduler()
    add(engine, sequence("a", 1, 1))
    with pytest.raises(RequestError, match="request 'a' is running or waiting already"):
        engine.add(sequence("a", 1, 1))
    with pytest.raises(RequestError, match="request 'b' is running or waiting already"):
        engine.add(sequence("b", [1], 1, forks=(sequence("b", [1], 1),)))
    list(drive(engine, {}))
    add(engine, sequence("a", 1, 1))


@pytest.mark.parametrize(("prompt", "max_tokens"), [([], 1), ([1], 0), ([1], -3)])
def test_a_request_has_a_prompt_and_an_answer(prompt: list[int], max_tokens: int) -> None:
    with pytest.raises(RequestError, match="accepted: at least 1"):
        Sequence("a", prompt, SamplingParams(max_tokens=max_tokens))


def test_abort_gives_everything_back_whoever_it_hits() -> None:
    engine = scheduler(num_blocks=6)
    forks = (sequence("f", [1] * 5, 4), sequence("g", [1] * 5, 4))
    add(engine, sequence("a", 8, 8), sequence("p", [1] * 5, 4, forks=forks), sequence("b", 20, 1))
    turn(engine)
    engine.abort("a")
    engine.abort("b")
    assert forks[0].status is Status.RUNNING
    engine.abort("f")
    with pytest.raises(RequestError, match="no request 'f' is running or waiting"):
        engine.abort("f")
    list(drive(engine, {}))
    assert forks[0].finish_reason is FinishReason.ABORT and forks[1].finish_reason is FinishReason.LENGTH


def test_forks_that_still_wait_inside_their_parent_can_be_aborted_and_go_with_it() -> None:
    engine = scheduler(token_budget=2)
    forks = (sequence("f", [1] * 5, 4), sequence("g", [1] * 5, 4))
    parent = sequence("p", [1] * 5, 4, forks=forks)
    add(engine, parent)
    turn(engine)
    engine.abort("f")
    assert parent.forks == forks[1:] and set(engine.sequences) == {"p", "g"}
    engine.abort("p")
    assert not engine.sequences and not engine.has_work and forks[1].finish_reason is FinishReason.ABORT


def test_forks_start_from_the_last_logits_of_the_prompt() -> None:
    engine = scheduler(num_blocks=20, token_budget=6)
    forks = tuple(sequence(f"f{i}", [7] * 9, 3) for i in range(3))
    parent = sequence("p", [7] * 9, 3, forks=forks)
    other = sequence("q", 1, 9)
    add(engine, parent, other)
    first = engine.schedule()
    assert tokens(first) == {"p": 6} and first.chunks[0].samplers == ()
    check_step(engine, first)
    engine.finish_step(first, {})
    second = engine.schedule()
    assert second.chunks[0].samplers == (parent, *forks) and second.blocks_used == 4
    check_step(engine, second)
    engine.finish_step(second, sample(second))
    assert engine.running == [parent, *forks, other] and engine.cache.blocks_used == 4
    third, _ = turn(engine)
    assert len(third.copies) == 3 and third.blocks_used == 3 + 3 + 1
    assert len({each.tokens[9] for each in (parent, *forks)}) == 4


def test_forks_that_are_done_with_their_first_token_hold_nothing() -> None:
    engine = scheduler()
    forks = (sequence("f", [7] * 3, 1), sequence("g", [7] * 3, 2))
    add(engine, sequence("p", [7] * 3, 1, forks=forks))
    assert turn(engine)[1] == ["p", "f"]
    assert turn(engine)[1] == ["g"]
    assert engine.cache.blocks_used == 0


def test_forks_take_seats() -> None:
    engine = scheduler(num_blocks=40, max_num_seqs=4)
    add(engine, sequence("a", 1, 9), sequence("p", [7], 9, forks=tuple(sequence(f"f{i}", [7], 9) for i in range(3))))
    assert turn(engine)[0].running == 1
    with pytest.raises(RequestError, match="request 'x' has 5 samples; accepted: at most max_num_seqs, 4"):
        engine.add(sequence("x", [7], 1, forks=tuple(sequence(f"x{i}", [7], 1) for i in range(4))))


@pytest.mark.parametrize("cache", ["reservation", "exact-fit:best"])
def test_contiguous_caches_cannot_fork(cache: str) -> None:
    engine = scheduler(num_blocks=40, cache=cache)
    with pytest.raises(RequestError, match="request 'p' forks; accepted: with cache 'paged'"):
        engine.add(sequence("p", [7], 1, forks=(sequence("f", [7], 1),)))


def test_a_fork_has_its_parents_prompt() -> None:
    with pytest.raises(RequestError, match="a fork of request 'p' is not one"):
        scheduler().add(sequence("p", [7], 1, forks=(sequence("f", [8], 1),)))


@pytest.mark.parametrize(("cache", "seats"), [("reservation", 2), ("exact-fit", 5), ("paged", 8)])
def test_the_same_pool_holds_more_the_less_is_set_aside(cache: str, seats: int) -> None:
    """128 slots of which a sequence uses 24 in the end, 16 at first; 64 are the most there may be."""
    engine = scheduler(num_blocks=33 if cache == "paged" else 32, max_model_len=64, cache=cache)
    add(engine, *(sequence(str(i), 16, 9) for i in range(20)))
    step, _ = turn(engine)
    assert step.running == seats
    rows = list(drive(engine, {}))
    assert engine.totals.preemptions == 0 or cache == "paged"
    assert rows[-1]["finished"]


def test_after_a_step_that_failed_nobody_finds_what_it_was_to_write() -> None:
    engine = scheduler(num_blocks=20, prefix_caching=True)
    prompt = list(range(13))
    add(engine, sequence("a", prompt, 4), sequence("b", prompt, 4))
    step = engine.schedule()
    assert step.admitted[1][1] == 12  # b counts on what a was to write
    engine.abort("a")
    engine.abort("b")
    engine.cache.check()
    add(engine, sequence("c", prompt, 4))
    assert turn(engine)[0].admitted[0][1] == 0
