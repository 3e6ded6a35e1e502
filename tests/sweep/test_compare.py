"""Two saved results: what differs, and what is noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pagesim.sim.compare import Difference, Verdict, judged
from pagesim.sim.stats import Interval

SHORT = ("--requests", 400, "--runs", 4, "--pool-tokens", 20_000, "--no-html")


def save(pagesim: Any, name: str, *words: object) -> Path:
    outcome = pagesim("run", *SHORT, *words, "--out", name)
    assert outcome.status == 0, outcome.err
    return Path(name)


def by_figure(document: dict[str, Any], allocator: str = "paged") -> dict[str, Any]:
    return {each["figure"]: each for each in document["differences"] if each["allocator"] == allocator}


def test_a_result_is_the_same_as_itself(pagesim: Any) -> None:
    one = save(pagesim, "one", "--load", 1.2)
    document = pagesim("compare", one, one, "--json").json()
    assert document["schema"] == "pagesim.compare/1"
    assert document["same_requests"] is True and document["changed"] == {}
    assert {each["verdict"] for each in document["differences"]} == {"same"}


def test_what_blocks_change_is_clear_and_what_they_do_not_is_the_same(pagesim: Any) -> None:
    a = save(pagesim, "a", "--load", 0.5, "--block-size", 16)
    b = save(pagesim, "b", "--load", 0.5, "--block-size", 64)
    document = pagesim("compare", a, b, "--json").json()
    assert document["pairs"] == 4 and document["same_requests"] is True
    assert document["changed"] == {"pool.block_size": {"a": 16, "b": 64}}
    assert by_figure(document)["internal"]["verdict"] == "clear"
    assert by_figure(document)["internal"]["difference"]["low"] > 0
    assert {each["verdict"] for each in by_figure(document, "reservation").values()} == {"same"}


def test_another_seed_is_noise(pagesim: Any) -> None:
    a, b = (save(pagesim, f"seed{seed}", "--load", 1.2, "--seed", seed) for seed in (1, 2))
    document = pagesim("compare", a, b, "--json").json()
    assert document["same_requests"] is False
    verdicts = [each["verdict"] for each in document["differences"]]
    assert "clear" not in verdicts
    assert verdicts.count("noise") > len(verdicts) / 2


def test_intervals_are_those_of_paired_differences(pagesim: Any) -> None:
    from pagesim.sim.serving.result import ServingResult

    words = ("--on-full", "queue", "--slo", "ttft<1s")
    a, b = save(pagesim, "a", *words, "--load", 1), save(pagesim, "b", *words, "--load", 1.2)
    figures = by_figure(pagesim("compare", a, b, "--json").json())
    one, other = (ServingResult.load(path).allocators["paged"].per_run for path in (a, b))
    assert {"ttft_s_p99", "tpot_s_p50", "goodput_per_s", "preemptions", "occupied"} <= figures.keys() == one.keys()
    for name, each in figures.items():
        pairs = np.array(other[name]) - np.array(one[name])
        if pairs.std() > 0:
            wanted = stats.t.interval(0.95, len(pairs) - 1, pairs.mean(), stats.sem(pairs))
            assert [each["difference"]["low"], each["difference"]["high"]] == pytest.approx(wanted, rel=1e-6)
            assert each["p_value"] == pytest.approx(stats.ttest_rel(other[name], one[name]).pvalue, rel=1e-6)


def made(p_values: list[float]) -> list[Difference]:
    return [Difference("x", str(k), 0, 1, Interval(1, 0.5, 1.5), p, Verdict.NOISE) for k, p in enumerate(p_values)]


def test_holm_by_hand() -> None:
    """Of four, limits are 0.0125, 0.0167, 0.025, 0.05; the first that fails stops it."""
    words = [each.verdict for each in judged(made([0.03, 0.012, 0.2, 0.016]))]
    assert words == [Verdict.PERHAPS, Verdict.CLEAR, Verdict.NOISE, Verdict.CLEAR]
    words = [each.verdict for each in judged(made([0.02, 0.02, 0.02, 0.02]))]
    assert words == [Verdict.PERHAPS] * 4


def test_of_many_figures_that_do_not_differ_hardly_ever_one_is_clear() -> None:
    rng = np.random.default_rng(5)
    wrong = sum(
        any(each.verdict is Verdict.CLEAR for each in judged(made(rng.uniform(size=20).tolist()))) for _ in range(2000)
    )
    assert 0.03 < wrong / 2000 < 0.07


def test_two_allocators_of_two_results(pagesim: Any) -> None:
    a, b = (save(pagesim, name, "--allocator", name, "--load", 1.2) for name in ("reservation", "paged"))
    outcome = pagesim("compare", a, b)
    assert "reservation to paged" in outcome.out
    assert "4 pairs of runs: the same requests." in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--on-full", "queue"), "accepted: two of one kind"),
        (("--runs", 3), "a has 4 replications and b has 3; accepted: as many in both"),
        (("--allocators", "paged,buddy"), "no allocator is in both: reservation, exact-fit, and buddy, paged"),
    ],
)
def test_what_cannot_be_compared_is_one_line(pagesim: Any, words: tuple[object, ...], said: str) -> None:
    a = save(pagesim, "a", "--allocators", "reservation,exact-fit")
    b = save(pagesim, "b", *words)
    outcome = pagesim("compare", a, b)
    assert outcome.status == 2
    assert said in outcome.err, outcome.err


def test_what_is_no_result_is_one_line(pagesim: Any) -> None:
    Path("swept").mkdir()
    Path("x.json").write_text('{"schema": "pagesim.sweep/1"}')
    for path, said in (
        ("none", "none: cannot be read"),
        ("swept", "swept: has no run.json; accepted: a folder that `pagesim run --out` wrote"),
        ("x.json", "schema pagesim.sweep/1; accepted: pagesim.run/1"),
    ):
        outcome = pagesim("compare", path, path)
        assert outcome.status == 2 and said in outcome.err, outcome.err


def test_a_result_changed_by_hand_is_one_line(pagesim: Any) -> None:
    import json

    a = save(pagesim, "a", "--allocator", "paged")
    text = (a / "run.json").read_text()
    short, nameless, empty = (json.loads(text) for _ in range(3))
    empty["allocators"]["paged"]["per_run"] = {}
    short["allocators"]["paged"]["per_run"]["refused_share"].pop()
    del nameless["trace"]["replications"][1]["sha256"]
    for changed, said in (
        (short, "x.json: allocators.paged.per_run.refused_share has 3 values; accepted: 4"),
        (empty, "x.json: allocators.paged.per_run is empty"),
        (nameless, "x.json: trace.replications without sha256; accepted: as"),
    ):
        Path("x.json").write_text(json.dumps(changed))
        for pair in ((a, "x.json"), ("x.json", a)):
            outcome = pagesim("compare", *pair)
            assert outcome.status == 2 and said in outcome.err, outcome.err
