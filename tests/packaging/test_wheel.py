"""The built wheel holds every module and data file, and runs away from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("sim", "engine", "kernels", "validate")
DATA = (".json", ".html", ".css", ".js", ".toml")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel out of a copy of the checkout, so that nothing is written into it."""
    folder = tmp_path_factory.mktemp("wheel")
    skip = shutil.ignore_patterns(".git", ".venv", "tests", "*.egg-info", "__pycache__", ".*_cache", "build", "dist")
    shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=skip)
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(folder / "source"),
    ]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    wanted = {"pagesim/cli.py", "pagesim/py.typed"}
    for part in PARTS:
        for path in (ROOT / part).rglob("*"):
            if path.suffix in (".py", *DATA):
                wanted.add(f"pagesim/{path.relative_to(ROOT).as_posix()}")
    for path in (ROOT / "src" / "pagesim").glob("**/*.py"):
        if not path.is_symlink():
            wanted.add(path.relative_to(ROOT / "src").as_posix())
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert len(wanted) > 40
    assert wanted <= held, sorted(wanted - held)


def test_the_wheel_runs_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where = [sys.executable, "-c", "import pagesim; print(pagesim.__file__)"]
    run = [sys.executable, "-m", "pagesim", "run", "--load", "high", "--requests", "500", "--runs", "2"]
    shown = subprocess.run(where, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path).stdout
    assert shown.startswith(str(tmp_path))
    answer = subprocess.run([*run, "--json"], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert json.loads(answer.stdout)["schema"] == "pagesim.run/1"
    subprocess.run(run, capture_output=True, check=True, env=environment, cwd=tmp_path)
    assert (tmp_path / "pagesim-run.html").stat().st_size > 1_000_000
