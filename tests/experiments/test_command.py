"""`python -m pagesim.sim.experiments`, the profile's file, and the document that shows the table."""

import json
from pathlib import Path

import pytest

from pagesim.sim.errors import UsageError
from pagesim.sim.experiments.__main__ import main
from pagesim.sim.experiments.profile import REFERENCE, read_profile
from pagesim.sim.experiments.table import markdown
from pagesim.sim.jsontext import dumps

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "sim" / "experiments" / f"{REFERENCE}.json"
BEGIN, END = "<!-- rows -->\n", "<!-- end of rows -->\n"


def test_the_document_shows_the_rows_as_they_come_out(done):
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown == "\n".join(markdown(*one) for one in done.values())


def test_json(capsys):
    assert main(["salts", "unstarved", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "pagesim.experiments/1"
    assert [one["name"] for one in told["experiments"]] == ["salts", "unstarved"]
    preemptions, throughput = told["experiments"][1]["rows"]
    assert (preemptions["published"], preemptions["ours"], preemptions["standing"]) == ([0], 0, "exact")
    assert (throughput["published"], throughput["unit"], throughput["standing"]) == ([4476], "tokens/s", "fitted")


def test_a_table_for_people(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["unstarved"]) == 0
    told = capsys.readouterr().out
    assert "4,476 tokens/s │ 4,476 tokens/s │ +0.0%" in told
    assert "Assumed: Answers of 1,015 tokens" in told
    assert "A whole simulated run is one equation of the fit." in told


def test_an_unknown_name(capsys):
    assert main(["salts", "starving"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: experiment 'starving'; accepted: starved, ") and err.count("\n") == 1


def test_the_shipped_profile_is_read_back_as_it_stands():
    assert dumps(read_profile(SHIPPED).as_json()) + "\n" == SHIPPED.read_text(encoding="utf-8")


def changed(**changes):
    return json.dumps({**json.loads(SHIPPED.read_text(encoding="utf-8")), **changes})


BAD = {
    "not JSON": ("step = 1", "not a step-time profile"),
    "another schema": (changed(schema="pagesim.run/1"), "schema 'pagesim.run/1'; accepted: pagesim.profile/1"),
    "a coefficient missing": (changed(coefficients={"base_s": 1.0}), "missing required field `per_token_s`"),
    "a coefficient that is text": (
        changed(coefficients={"base_s": "x", "per_token_s": 0, "per_pair_s": 0, "per_sequence_s": 0}),
        "base_s",
    ),
    "a negative coefficient": (
        changed(coefficients={"base_s": 1.0, "per_token_s": -1.0, "per_pair_s": 0, "per_sequence_s": 0}),
        "per_token_s -1; accepted: 0 or more",
    ),
    "a curve that falls": (
        changed(
            coefficients={
                "base_s": 1.0,
                "per_token_s": 0.1,
                "per_pair_s": 0,
                "per_sequence_s": 0,
                "curve": [[4, 0.5], [8, 0.4]],
            }
        ),
        "curve has (8, 0.4) after (4, 0.5); accepted: tokens that rise, and seconds that do not fall",
    ),
    "a knot of one number": (
        changed(coefficients={"base_s": 1.0, "per_token_s": 0.1, "per_pair_s": 0, "per_sequence_s": 0, "curve": [[4]]}),
        "curve",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_profile_is_told_with_its_file(tmp_path, kind):
    text, told = BAD[kind]
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_profile(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_profile_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json: cannot be read"):
        read_profile(tmp_path / "none.json")
