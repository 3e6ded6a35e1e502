"""A trace on a server beside its prediction: `pagesim serve`, and servers that lie, break off or talk nonsense."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lying_server import BLOCK_SIZE, NUM_BLOCKS, lying

pytest.importorskip("prometheus_client", reason="/metrics are read with it: needs pagesim[serve]")

from pagesim import cli
from pagesim.sim.trace import Trace
from pagesim.validate.server.metrics import PREEMPTIONS
from pagesim.validate.server.rows import Row, Standing

sys.path.append(str(Path(__file__).parents[1] / "engine_server"))
STEPS = ("--step-time", "constant:0.002")


@pytest.fixture
def validate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Calls the command on a server with the rows of a trace; gives exit status, stdout and stderr."""

    def call(address: str, rows: list[dict[str, Any]] | None, *given: object) -> tuple[Any, str, str]:
        options: list[object] = [*STEPS, *given]
        if rows is not None:
            (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            options += ["--trace", tmp_path / "trace.jsonl"]
        monkeypatch.setattr(sys, "argv", ["pagesim", "validate", "vllm", "--server", address, *map(str, options)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, *capsys.readouterr()

    return call


def row(arrival_s: float, prompt: int, output: int, **more: Any) -> dict[str, Any]:
    return {"arrival_s": arrival_s, "prompt_tokens": prompt, "output_tokens": output, **more}


ROWS = [row(k / 100, 10 + k, 3) for k in range(6)]


def figure(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (each for each in document["rows"] if each["name"] == name)
    return found


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    from running_server import running

    with running({}, num_blocks=60, max_model_len=400, prefix_caching=True) as server:
        yield server


def test_our_server_does_what_is_predicted(served: Any, validate: Any) -> None:
    """Whoever comes later finds what came before, at whatever speed: the hit rate is exact here."""
    rows = [row(k / 5, 70, 6, hash_ids=[1, 2, 3, 9 + k]) for k in range(5)]
    rows += [row(1 + k / 5, 70, 6, hash_ids=[1, 2, 3, 9], cache_salt="other") for k in range(2)]
    options = ("--speed", 2, "--num-blocks", 60, "--vocab-size", 1024, "--hash-block-tokens", 20, "--json")
    for _ in range(2):  # what the first time has left in the cache, the second does not find
        status, out, _ = validate(served.address, rows, *options)
        document = json.loads(out)
        assert status == 0 and document["schema"] == "pagesim.validate-server/1" and document["agrees"]
        assert figure(document, "capacity")["measured"] == 60 * 16
        assert figure(document, "tokens that the server counts")["measured"] == 42
        hits = figure(document, "hit rate")
        assert (
            hits["measured"] == hits["predicted"] == pytest.approx((4 * 48 + 64) / (7 * 70), rel=1e-8)
        )  # as it is printed
        assert figure(document, "preemptions")["measured"] == figure(document, "preemptions")["predicted"] == 0
        assert document["rules"]["prefix_caching"] and document["rules"]["max_model_len"] == 400
        assert all(figure(document, f"{what} mean")["difference"] is not None for what in ("TTFT", "TPOT"))
        assert [each["problem"] for each in document["answers"]] == [None] * 7
    served.wait_until_idle()


def test_our_server_under_pressure(served: Any, validate: Any) -> None:
    rows = [row(0.0, 100 + k, 150) for k in range(8)]  # 8 times 16 blocks, of 59
    status, out, _ = validate(served.address, rows, "--unsorted", "sort", "--jitter", "0.01")
    assert status == 0 and "What must be equal is equal." in out
    line = next(line for line in out.splitlines() if "preemptions" in line)
    assert int(line.split()[1]) > 0 and int(line.split()[2]) > 0
    assert "requests with all their tokens" in out and "given the step times" in out
    served.wait_until_idle()


def test_latencies_are_told_as_they_are_defined() -> None:
    """TTFT from when a request was due, however late it was sent; TPOT over the gaps; each with who has none."""
    from pagesim.validate.server.measured import Measured
    from pagesim.validate.server.metrics import CacheConfig, Metrics
    from pagesim.validate.server.realtime import Outcome, RealTime
    from pagesim.validate.server.stream import Answer

    trace = Trace(np.array([0.0, 1.0, 2.0, 3.0]), np.full(4, 9), np.array([5, 3, 1, 2]))
    answers = [Answer(103.0, 107.0, 5), Answer(101.5, 103.5, 3), Answer(102.25, 102.25, 1), Answer()]
    outcomes = [Outcome(k, float(k), each, k + 0.25) for k, each in enumerate(answers)]
    outcomes[0].sent_s, outcomes[3].sent_s = 2.5, None
    run = RealTime(100.0, outcomes, {}, 0, None)
    before, after = (Metrics({PREEMPTIONS: value}, CacheConfig()) for value in (2.0, 5.0))
    found = Measured.of(run, trace, before, after)
    assert (found.ttft.max, found.ttft.p50, found.ttft.missing) == (3.0, 0.5, 1)
    assert (found.tpot.mean, found.tpot.count, found.tpot.missing) == (1.0, 2, 1)
    assert (found.tokens, found.duration_s, found.late_s, found.moved) == (9, 7.0, 2.5, {PREEMPTIONS: 3.0})
    assert found.problems == {3: "was not sent"}
    row = Row("", "", 3.0, 5.0, Standing.EXACT)
    assert row.difference == -2.0 and row.agrees is False


def test_another_capacity_than_expected_is_exit_status_1(served: Any, validate: Any) -> None:
    status, out, _ = validate(served.address, ROWS, "--num-blocks", 61)
    assert status == 1 and "They differ: capacity." in out
    assert next(line for line in out.splitlines() if "capacity" in line).split()[-1] == "NO"


def test_what_the_server_has_no_room_for_is_left_out_on_both_sides(served: Any, validate: Any) -> None:
    status, out, _ = validate(served.address, [*ROWS, row(0.2, 390, 20)], "--json")
    document = json.loads(out)
    assert status == 0 and document["requests"] == 6 and document["left_out"] == 1


def test_an_honest_server_without_a_model(validate: Any) -> None:
    with lying() as server:
        status, out, _ = validate(server.address, ROWS, "--num-blocks", NUM_BLOCKS, "--block-size", BLOCK_SIZE)
        assert status == 0 and "What must be equal is equal." in out
        body = min(server.lies.bodies, key=lambda each: len(each["prompt"]))  # a busy machine may send others before it
    assert len(body["prompt"]) == 10 and max(body["prompt"]) < 1000 and body["ignore_eos"] and body["max_tokens"] == 3
    assert len({each["cache_salt"] for each in server.lies.bodies}) == 1
    with lying(no_token_ids=True) as server:
        status, out, _ = validate(server.address, ROWS)
        assert status == 0 and "What must be equal is equal." in out


@pytest.mark.parametrize(
    ("lies", "line"),
    [
        ({"fewer_tokens": 1}, "request 0: 2 of 3 tokens"),
        ({"fewer_tokens": -1}, "request 0: 4 of 3 tokens"),
        ({"more_counted": 1}, "request 0: 3 tokens came, and the server counts 4"),
        ({"longer_prompt": 1}, "request 0: its prompt has 10 tokens, and the server counts 11"),
        ({"close_in_answer": 2}, "request 2: 1 of 3 tokens, then the answer broke off"),
        ({"error_event": "out of memory"}, "in the middle of an answer: '{\"message\":\"out of memory\"}'"),
        ({"refuse": 503}, "POST /v1/completions: 503 Service Unavailable: {\"error\": {\"message\": \"no room\"}}"),
        ({"more_generated": 5}, "They differ: tokens that the server counts."),
    ],
)  # fmt: skip
def test_a_lie_is_reported_and_exit_status_1(validate: Any, lies: dict[str, Any], line: str) -> None:
    with lying(**lies) as server:
        status, out, err = validate(server.address, ROWS)
    assert status == 1 and line in out and err == ""
    assert "They differ: " in out


def test_a_gauge_that_was_never_read_is_not_called_0(validate: Any) -> None:
    gauges = ("most running, of what was read", "most blocks used, of what was read")
    rows = [row(k / 10, 10 + k, 3) for k in range(6)]
    for lies in ({"without": ("num_requests_running", "kv_cache_usage_perc")}, {}):
        with lying(**lies) as server:
            _, out, _ = validate(server.address, rows, "--json")
        document = json.loads(out)
        assert document["readings"] > 0
        assert {figure(document, name)["measured"] for name in gauges} == ({None} if lies else {0})
    with lying() as server:
        _, out, _ = validate(server.address, ROWS[:1], "--json")
    document = json.loads(out)
    assert document["readings"] or {figure(document, name)["measured"] for name in gauges} == {None}


def test_metrics_that_are_missing_are_said(validate: Any) -> None:
    missing = ("num_preemptions_total", "generation_tokens_total")
    with lying(without=missing) as server:
        status, out, _ = validate(server.address, ROWS, "--json")
    document = json.loads(out)
    assert status == 0 and document["missing_metrics"] == [f"vllm:{name}" for name in missing]
    assert figure(document, "preemptions")["measured"] is None
    assert figure(document, "tokens that the server counts")["agrees"] is None
    with lying(without=("cache_config_info",)) as server:
        status, out, _ = validate(server.address, ROWS, "--num-blocks", 50, "--block-size", 16, "--json")
        assert status == 0 and figure(json.loads(out), "capacity")["measured"] is None


@pytest.mark.parametrize(
    ("lies", "line"),
    [
        ({"event_line": b"data: {not json"}, "'{not json' is no piece of an answer"),
        ({"event_line": b"<html>"}, "'<html>' is no server-sent event"),
        ({"die_after": 2}, "does not answer"),
        ({"hang": True}, "--timeout 1 s are over"),
    ],
)
def test_a_server_that_breaks_off_is_exit_status_2_and_nothing_is_lost(
    validate: Any, lies: dict[str, Any], line: str
) -> None:
    with lying(**lies) as server:
        status, out, err = validate(server.address, ROWS, "--json", "--timeout", 1)
    document = json.loads(out)
    assert status == 2 and not document["agrees"] and line in document["broke_off"]
    assert err.startswith("error: it broke off, and the result is not whole: ") and err.count("\n") == 1 and line in err
    fine = [each for each in document["answers"] if each["problem"] is None]
    assert len(fine) == figure(document, "requests with all their tokens")["measured"]
    assert len(document["answers"]) == 6 and len(fine) == (2 if "die_after" in lies else 0)


@pytest.mark.parametrize(
    ("lies", "given", "line"),
    [
        ({"metrics_text": "<html>"}, (), "not Prometheus's text format"),
        ({"models_text": "[1]"}, (), "no list of models"),
        ({"models_text": '{"data": []}'}, (), "an empty list"),
        ({"running": 3}, (), "3 requests run or wait there; accepted: an idle server"),
        ({"engines": ("0", "1")}, (), "2 engines stand behind the server; accepted: one"),
        ({"num_blocks": "many"}, (), "num_gpu_blocks='many', which is no count"),
        ({"without": ("cache_config_info",)}, (), "says its pool; accepted: --num-blocks and --block-size"),
        ({}, ("--model", "other"), "--model other: not served; accepted: m"),
        ({}, ("--prefix-caching",), "the server says that it has none"),
        ({}, ("--speed", "0.00001"), "--timeout is 600; accepted: a longer one"),
        ({}, ("--speed", "0"), "--speed 0; accepted: more than 0"),
        ({}, ("--vocab-size", "0"), "--vocab-size 0; accepted: more than 0"),
        ({}, ("--timeout", "0"), "--timeout 0; accepted: more than 0"),
        ({}, ("--timeout", "1e300"), "--timeout 1e+300; accepted: more than 0, up to 1e+06"),
        ({}, ("--speed", "nan"), "--speed nan; accepted: more than 0"),
        ({}, ("--speed", "1e-300"), "s, and --timeout is 600; accepted: a longer one"),
        ({}, ("--block-size", "32"), "--block-size 32, and the server says 16; accepted: leave it out"),
    ],
)
def test_what_cannot_be_measured_is_one_line_and_exit_status_2(
    validate: Any, lies: dict[str, Any], given: tuple[str, ...], line: str
) -> None:
    with lying(**lies) as server:
        status, out, err = validate(server.address, ROWS, *given)
    assert status == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and line in err


def test_nobody_there_is_one_line(validate: Any) -> None:
    with lying() as server:
        address = server.address
    status, _, err = validate(address, ROWS)
    assert status == 2 and err.count("\n") == 1 and "does not answer (Connection refused)" in err


def test_a_recording_goes_with_no_server(validate: Any) -> None:
    status, _, err = validate("http://127.0.0.1:1", None, "--scenario", "n8")
    assert status == 2 and err.count("\n") == 1
    assert "--server and --scenario" in err and err.endswith("accepted: --json\n")
