from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs pagesim[engine]")

import random
from dataclasses import replace
from typing import Any

from pagesim.engine import Engine, EngineConfig, SamplingParams
from pagesim.engine.errors import ConfigError, EngineError, MemoryBudgetError, RequestError
from pagesim.engine.outputs import RequestOutput
from pagesim.validate.slots import owned_slots

GREEDY = SamplingParams(temperature=0, max_tokens=20)
DRAWN = SamplingParams(temperature=1.0, max_tokens=20, seed=5)


def tiny(**options: Any) -> Engine:
    return Engine(EngineConfig("random:tiny", **({"num_blocks": 80, "max_model_len": 128} | options)), audit=True)


def prompts(count: int, longest: int = 30, seed: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(1024) for _ in range(draw.randint(1, longest))] for _ in range(count)]


def tokens(outputs: list[RequestOutput]) -> list[list[tuple[int, ...]]]:
    return [[sample.token_ids for sample in output.samples] for output in outputs]


def test_a_seeded_request_gets_the_same_tokens_in_any_company() -> None:
    batch = prompts(12)
    together = tokens(tiny().generate(batch, DRAWN))
    alone = [tokens(tiny(token_budget=7).generate([prompt], DRAWN))[0] for prompt in batch]
    assert together == alone
    assert len({each[0] for each in together}) == 12


def test_preemption_and_prefix_hits_change_no_drawn_token() -> None:
    """Drawn tokens need more than the right argmax: the whole distribution must be the same."""
    head = prompts(1, seed=3)[0] * 3
    batch = [[*head, *tail] for tail in prompts(10, 12)]
    plain = tokens(tiny(num_blocks=400).generate(batch, DRAWN))
    starved = tiny(num_blocks=40, block_size=4)
    assert tokens(starved.generate(batch, DRAWN)) == plain
    assert starved.scheduler.totals.preemptions > 0
    cached = tiny(num_blocks=60, block_size=4, prefix_caching=True)
    assert tokens(cached.generate(batch, DRAWN)) == plain
    assert cached.scheduler.totals.prefix_hits_first > 0


def test_seeds_differ_between_requests_and_follow_from_the_engines() -> None:
    unseeded = replace(DRAWN, seed=None)
    first, again, other = (tokens(tiny(seed=seed).generate([[1, 2, 3]] * 3, unseeded)) for seed in (1, 1, 2))
    assert first == again != other
    assert len({each[0] for each in first}) == 3


@pytest.mark.parametrize("temperature", [0, 1])
def test_forks_give_what_independent_samples_give_from_one_copy_of_the_prompt(temperature: int) -> None:
    prompt = list(range(50))
    sampling = SamplingParams(temperature=temperature, max_tokens=10, seed=3, n=8)
    forked, apart = tiny(), tiny()
    blocks = []
    one = forked.generate([prompt], replace(sampling, fork=True))
    forked.add_request(prompt, replace(sampling, fork=True))
    apart.add_request(prompt, sampling)
    for engine in (forked, apart):
        for _ in range(3):
            engine.step()
        blocks.append(engine.cache.blocks_used)
        while engine.has_work:
            finished = engine.step().finished
    assert tokens(one) == tokens(list(finished))
    assert len({sample.token_ids for sample in one[0].samples}) == (1 if temperature == 0 else 8)
    assert blocks == [3 + 8, 8 * 4], "three full blocks of the prompt are shared, the fourth is each one's own"
    assert forked.cache.blocks_used == 0
    forked.cache.check()


def test_forks_are_preempted_and_come_back() -> None:
    sampling = SamplingParams(temperature=1, max_tokens=30, seed=3, n=6)
    engine = tiny(num_blocks=24, block_size=4, max_model_len=60)
    outputs = engine.generate([list(range(21)), list(range(9))], replace(sampling, fork=True))
    assert engine.scheduler.totals.preemptions > 0
    assert tokens(outputs) == tokens(tiny().generate([list(range(21)), list(range(9))], sampling))
    assert engine.cache.blocks_used == 0


def test_stop_tokens_and_the_end_of_text() -> None:
    whole = tiny().generate([[5, 6, 7]], GREEDY)[0]
    assert (whole.finish_reason, len(whole.token_ids)) == ("length", 20)
    stop = whole.token_ids[4]
    first = whole.token_ids.index(stop)
    stopped = tiny().generate([[5, 6, 7]], replace(GREEDY, stop_token_ids=frozenset([stop])))[0]
    assert (stopped.finish_reason, stopped.token_ids) == ("stop", whole.token_ids[: first + 1])
    engine = tiny()
    engine.model = replace(engine.model, eos_token_ids=frozenset([stop]))
    assert engine.generate([[5, 6, 7]], GREEDY)[0].token_ids == stopped.token_ids
    assert engine.generate([[5, 6, 7]], replace(GREEDY, ignore_eos=True))[0].token_ids == whole.token_ids


def test_an_answer_ends_at_max_model_len() -> None:
    output = tiny(max_model_len=32).generate([[1] * 30], GREEDY)[0]
    assert (len(output.token_ids), output.finish_reason) == (2, "length")


def test_steps_tell_every_token_once_and_streamed_text_adds_up() -> None:
    engine = tiny()
    ids = [engine.add_request("héllo wörld", DRAWN, stream_text=True) for _ in range(3)]
    assert ids == ["0", "1", "2"]
    seen: dict[str, list[int]] = {id: [] for id in ids}
    texts = dict.fromkeys(ids, "")
    outputs = []
    while engine.has_work:
        step = engine.step()
        outputs += step.finished
        for token in step.tokens:
            seen[token.request_id].append(token.token_id)
            texts[token.request_id] += token.text
    assert len(outputs) == 3
    for output in outputs:
        assert seen[output.request_id] == list(output.token_ids)
        assert texts[output.request_id] == output.text
        assert output.first_token_s is not None
        assert output.arrival_s <= output.first_token_s <= output.finished_s


def test_an_aborted_request_gives_everything_back_at_once() -> None:
    engine = tiny()
    for prompt in prompts(4):
        engine.add_request(prompt, replace(DRAWN, n=2, fork=True))
    engine.step()
    engine.step()
    output = engine.abort("1")
    assert [sample.finish_reason for sample in output.samples] == ["abort", "abort"]
    assert all(sample.token_ids for sample in output.samples)
    with pytest.raises(RequestError, match="no request '1'"):
        engine.abort("1")
    for id in ("0", "2", "3"):
        engine.abort(id)
    assert not engine.has_work
    assert engine.cache.blocks_used == 0
    engine.cache.check()


def test_a_slot_that_was_never_written_is_seen() -> None:
    engine = tiny()
    engine.add_request(list(range(40)), GREEDY)
    engine.step()
    [sequence] = engine.scheduler.running
    sequence.block_table[1] += 1
    with pytest.raises(AssertionError, match="that nobody had written"):
        engine.step()


@pytest.mark.parametrize("cache", ["paged", "reservation", "exact-fit:best"])
def test_no_step_reads_what_nobody_owns(cache: str) -> None:
    """Between steps every slot that no running sequence has filled is poisoned again, freed blocks with it."""
    batch = prompts(30, 25, seed=8)
    engine = tiny(cache=cache, num_blocks=30, block_size=8, max_model_len=60, token_budget=40)
    for prompt in batch:
        engine.add_request(prompt, GREEDY)
    outputs = {}
    while engine.has_work:
        poison(engine)
        outputs |= {output.request_id: output for output in engine.step().finished}
    calm = tiny(num_blocks=400).generate(batch, GREEDY)
    assert [outputs[str(number)].token_ids for number in range(30)] == [output.token_ids for output in calm]


def poison(engine: Engine) -> None:
    layout = engine.tensors.layout
    unowned = torch.ones(layout.num_blocks * layout.block_size, dtype=torch.bool)
    for sequence in engine.scheduler.running:
        unowned[torch.from_numpy(owned_slots(engine.cache, sequence)[: sequence.num_computed])] = False
    rows, offsets = (unowned.view(layout.num_blocks, -1)).nonzero(as_tuple=True)
    for layer in engine.tensors.layers:
        layer[rows, :, offsets] = float("nan")


@pytest.mark.parametrize(
    ("prompt", "words"),
    [([], "empty prompt"), ([3, 1024], "token 1024; accepted: 0 to 1023"), ([1] * 128, "accepted: at most 127")],
)
def test_requests_that_cannot_be_served(prompt: list[int], words: str) -> None:
    engine = tiny()
    with pytest.raises(RequestError, match=words):
        engine.add_request(prompt, GREEDY)
    assert not engine.has_work


def test_of_prompts_one_of_which_is_refused_none_is_served() -> None:
    engine = tiny()
    with pytest.raises(RequestError, match="empty prompt"):
        engine.generate([[1], [2], []], GREEDY)
    assert not engine.has_work
    with pytest.raises(RequestError, match="1 sampling parameters for 2 prompts"):
        engine.generate([[1], [2]], [GREEDY])


def test_a_request_of_which_one_sample_is_refused_leaves_nothing_behind() -> None:
    engine = tiny()
    engine.add_request([1], GREEDY, request_id="a.1")
    with pytest.raises(RequestError, match=r"a\.1"):
        engine.add_request([1], replace(GREEDY, n=2), request_id="a")
    assert [sequence.id for sequence in engine.scheduler.sequences.values()] == ["a.1"]
    with pytest.raises(RequestError, match=r"'a\.1' is running or waiting"):
        engine.add_request([1], GREEDY, request_id="a.1")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"device": "cuda"}, ConfigError, "no CUDA device") if not torch.cuda.is_available() else
        ({"device": "tpu"}, ConfigError, "device is tpu"),
        ({"dtype": "int8"}, EngineError, "dtype is int8"),
        ({"model": "random:none"}, EngineError, "random:none: no such preset"),
        ({"model": "nowhere"}, EngineError, "no such directory"),
        ({"max_model_len": 5000}, ConfigError, "at most the model's, 4096"),
        ({"num_blocks": 5}, MemoryBudgetError, "max_model_len is 128, .* accepted: at most 65"),
        ({"num_blocks": None, "memory": 2**21}, MemoryBudgetError, "room for 0 B of cache.*weights"),
        ({"num_blocks": None, "kv_bytes": 100}, MemoryBudgetError, "100 B of cache"),
    ],
)  # fmt: skip
def test_engines_that_cannot_start(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Engine(EngineConfig(**({"model": "random:tiny", "num_blocks": 80, "max_model_len": 128} | options)))


def test_the_report_names_the_backend_and_every_term_of_memory() -> None:
    text = "\n".join(tiny().report())
    for words in ("random:tiny, cpu, float32", "reference: plain torch", "weights", "activations", "80 of 16.00 KiB"):
        assert words in text
    engine = Engine(EngineConfig("random:tiny", memory=2**27, max_model_len=128, token_budget=64))
    account = engine.account
    assert account.limit_bytes == 2**27
    parts = account.weights_bytes + account.activation_bytes + account.cache_bytes
    assert 2**27 - account.block_bytes < parts <= 2**27


def test_running_out_of_memory_comes_with_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tiny()

    def fail(step: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    before = engine.generate([[3, 4]], GREEDY)[0].token_ids
    plain = engine.runner.run
    monkeypatch.setattr(engine.runner, "run", fail)
    engine.add_request([1, 2], GREEDY)
    with pytest.raises(MemoryBudgetError, match=r"out of memory in step 20, 2 tokens of 1 sequences \(weights .*cache"):
        engine.step()
    assert engine.request_ids == ()
    assert engine.cache.blocks_used == 0
    monkeypatch.setattr(engine.runner, "run", plain)
    assert engine.generate([[3, 4]], GREEDY)[0].token_ids == before


def test_importing_the_package_loads_no_torch() -> None:
    import subprocess
    import sys

    code = "import sys, pagesim.engine; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_starved_pool_changes_no_token() -> None:
    """The note's experiment, a fifth as wide and as long: `benchmarks/engine_soak.py` runs all of it."""
    draw = random.Random(0)
    batch = [[draw.randrange(1024) for _ in range(9)] for _ in range(40)]
    sampling = SamplingParams(temperature=0, max_tokens=203)
    short, ample = (tiny(num_blocks=blocks, max_model_len=256, token_budget=1638) for blocks in (195, 561))
    assert tokens(short.generate(batch, sampling)) == tokens(ample.generate(batch, sampling))
    assert short.scheduler.totals.preemptions > 20
    assert ample.scheduler.totals.preemptions == 0


def test_many_small_requests_leave_nothing_behind() -> None:
    engine = tiny(max_model_len=32, prefix_caching=True)
    for _ in range(5):
        engine.generate([[token % 7, 3] for token in range(200)], SamplingParams(max_tokens=3))
    assert (engine._requests, engine._owners, engine.scheduler.sequences) == ({}, {}, {})
    assert engine.cache.blocks_used == 0
    engine.cache.check()
