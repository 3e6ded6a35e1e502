"""The README and the pages of docs are true: what they say can be run is run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHORT = {  # so that the tests end today
    "run": ["--requests", "300", "--runs", "2"],
    "sweep": ["--requests", "50", "--seeds", "1"],
    "frontier": ["--requests", "50", "--seeds", "1"],
}
LINKS = re.compile(r"\]\(([^)#]+)\)")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def call(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, check=False)


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    lines = [line for block in blocks(README, "sh") for line in block.splitlines() if line.startswith("pagesim ")]
    assert len(lines) >= 10
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        short = SHORT.get(words[0], []) if not {"--trace", "--scenario"} & set(words) else []
        done = call(["-m", "pagesim", *words, *short], tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert done.stdout.strip(), line


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = blocks(README, "python")
    done = call(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Interval(mean=0.13")


def test_the_table_of_the_readme_is_what_the_main_job_prints(tmp_path: Path) -> None:
    done = call(["-m", "pagesim", "run", "--load", "high", "--no-html"], tmp_path)
    (shown,) = blocks(README, "text")
    wanted = [" ".join(line.split()) for line in shown.splitlines() if "%" in line]
    printed = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert len(wanted) == 9
    assert [line for line in wanted if line not in printed] == []


def test_the_table_of_the_queue_is_what_its_command_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "queue.md").read_text()
    (command,), (shown,) = (blocks(page, language) for language in ("sh", "text"))
    done = call(["-m", "pagesim", *shlex.split(command)[1:], "--no-html"], tmp_path)
    printed = [" ".join(line.split()) for line in done.stdout.splitlines()]
    wanted = [" ".join(line.split()) for line in shown.splitlines()]
    assert len(wanted) == 15
    assert [line for line in wanted if line not in printed] == []


def test_the_allocator_of_the_docs_runs_beside_the_others(tmp_path: Path) -> None:
    (code,) = blocks((ROOT / "docs" / "allocators.md").read_text(), "python")
    (tmp_path / "halves.py").write_text(code)
    options = ["--allocators", "paged,halves:Halves", "--growth", "token", "--pool-tokens", "40000", "--check"]
    done = call(["-m", "pagesim", "run", *options, *SHORT["run"], "--no-html"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "halves:Halves" in done.stdout


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINKS.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
