"""`pagesim run --scenario`: recordings of vLLM's scheduler agree step by step; experiments print what was published."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
RECORDINGS = sorted(GOLDEN.glob("*/*.json.gz"))
OURS = {
    "format": "pagesim-golden-1",
    "name": "two",
    "config": {
        "num_blocks": 9, "block_size": 4, "max_num_batched_tokens": 16, "max_num_seqs": 8, "max_model_len": 32,
        "enable_prefix_caching": False,
    },
    "requests": [
        {"id": "A", "arrival": 0, "prompt_tokens": 5, "output_tokens": 2},
        {"id": "B", "arrival": 1, "prompt_tokens": 4, "output_tokens": 1},
    ],
    "totals": {"steps": 2, "preemptions": 0, "scheduled_tokens": 10},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def comparer() -> Any:
    spec = importlib.util.spec_from_file_location("compare", GOLDEN / "compare.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not RECORDINGS, reason="the recordings (../shared/golden) are not here")
def test_every_recording_agrees_in_every_step(pagesim: Any) -> None:
    compare = comparer()
    for path in RECORDINGS:
        outcome = pagesim("run", "--scenario", path, "--steps", "log.jsonl", "--json")
        assert outcome.status == 0, outcome.err
        assert outcome.json()["agree"] is True, path.name
        steps, divergence = compare.compare(compare.load_golden(path), compare.read_candidate("log.jsonl"))
        assert steps > 0
        assert divergence is None, f"{path.name}: {divergence}"


def test_a_recording_by_hand(pagesim: Any) -> None:
    Path("two.json").write_text(json.dumps(OURS))
    document = pagesim("run", "--scenario", "two.json", "--steps", "log.jsonl", "--json").json()
    assert document["agree"] is True
    steps = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    # A: 5 tokens, 2 blocks. Then A one token, and B 4 tokens in a block of its own; both end.
    assert [(s["step"], s["running"], s["scheduled_tokens"], s["blocks_used"]) for s in steps] == [
        (0, 1, 5, 2),
        (1, 2, 5, 3),
    ]
    assert [s["admitted"] for s in steps] == [[["A", 0]], [["B", 0]]]
    assert steps[1]["finished"] == ["A", "B"]
    Path("wrong.json").write_text(json.dumps(OURS | {"totals": {"preemptions": 1}}))
    assert pagesim("run", "--scenario", "wrong.json", "--json").json()["agree"] is False


def test_an_experiment_prints_its_rows(pagesim: Any) -> None:
    document = pagesim("run", "--scenario", "shared-prefix", "--steps", "log.jsonl", "--json").json()
    assert document["schema"] == "pagesim.experiments/1"
    rows = document["experiments"][0]["rows"]
    assert any(row["published"] == [2400] or row["published"] == 2400 for row in rows)
    steps = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    hits = [hit for step in steps for _, hit in step["admitted"]]
    assert sorted(hits) == [0] + 15 * [2400]
    assert "2,400" in pagesim("run", "--scenario", "shared-prefix").out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--scenario", "hungry"), "--scenario hungry; accepted: starved"),
        (("--scenario", "starved", "--load", "high"), "--load and --scenario, which brings requests, pool and rules"),
        (("--steps", "log.jsonl"), "--steps"),
        (("--scenario", "bad.json"), "bad.json"),
        (("--scenario", "starved", "--steps", "none/log.jsonl"), "there is no folder none"),
    ],
)
def test_a_bad_scenario_is_one_line(pagesim: Any, options: tuple[str, ...], said: str) -> None:
    Path("bad.json").write_text('{"format": "another"}')
    outcome = pagesim("run", *options)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert said in outcome.err


def test_a_scenario_has_a_page_with_its_figures_and_its_pool(pagesim: Any) -> None:
    Path("two.json").write_text(json.dumps(OURS))
    outcome = pagesim("run", "--scenario", "two.json", "--html", "two.html")
    assert outcome.status == 0 and outcome.out.rstrip().endswith("report: two.html")
    page = Path("two.html").read_text()
    assert "what came out agrees with it" in page and 'id="map-data"' in page
    outcome = pagesim("run", "--scenario", "shared-prefix", "--html", "shared.html")
    page = Path("shared.html").read_text()
    assert outcome.status == 0 and "depends on an unknown length" in page and "first run of 4: cache on" in page
    refused = pagesim("run", "--scenario", "two.json", "--html", "two.json")
    assert refused.status == 2 and "named twice" in refused.err
