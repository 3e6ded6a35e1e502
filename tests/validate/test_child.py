"""A process of its own may crash, hang, print or raise: each comes back as one line, or as its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagesim.validate.child import Answer, in_child

HEAD = "import os, sys, time\nfrom pagesim.validate.child import answer\n"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def call(body: str, question: object = None, **more: object) -> Answer:
        (tmp_path / "work_to_do.py").write_text(f"{HEAD}def work(question, advance):\n    {body}\nanswer(work)\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # pagesim itself must be found without its help
        return in_child("work_to_do", question, **({"timeout_s": 60.0} | more))  # type: ignore[arg-type]

    return call


def test_a_value_comes_back_and_what_is_printed_does_not_disturb_it(ask) -> None:
    assert ask("print('noise'); return [question, 1]", {"a": None}) == Answer([{"a": None}, 1])


def test_progress_is_told(ask) -> None:
    told: list[int] = []
    assert ask("advance(2); advance(3); return None", advance=told.append) == Answer(None)
    assert sum(told) == 5


def test_an_environment_is_set_and_unset(ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "1")
    environment = {"OURS": None, "THEIRS": "2"}
    assert ask("return [os.environ.get('OURS'), os.environ.get('THEIRS')]", environment=environment).value == [
        None,
        "2",
    ]


def test_an_exception_is_one_line(ask) -> None:
    assert ask("raise ValueError('first' + chr(10) + 'second')") == Answer(None, "ValueError: first", "ValueError")


def test_a_missing_library_is_named(ask) -> None:
    found = ask("import no_such_library")
    assert (found.kind, found.missing) == ("ModuleNotFoundError", "no_such_library")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("os.kill(os.getpid(), 11)", "the process was ended by SIGSEGV"),
        ("os.write(2, b'a reason'); os._exit(3)", "the process ended with status 3: a reason"),
        ("sys.stderr.write('x' * 10**6); time.sleep(60)", "not done in 2 s: "),
    ],
)  # fmt: skip
def test_a_process_that_dies_or_hangs_is_one_line(ask, body: str, problem: str) -> None:
    found = ask(body, timeout_s=2.0 if "sleep" in body else 60.0)
    assert found.problem is not None and found.problem.startswith(problem) and "\n" not in found.problem
    assert len(found.problem) < 400
