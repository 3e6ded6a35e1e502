"""A headless Chromium, driven by npm's puppeteer-core; where one cannot be had, tests say so and are skipped."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 240  # that npm, or the browser, may take

Look = Callable[[Path, int, str, str], dict[str, Any]]


@pytest.fixture(scope="session")
def look(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """look(page, width, "light" or "dark", kind to jump to): what look.mjs saw."""
    chromium = next((path for name in NAMES if (path := shutil.which(name))), None)
    if chromium is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    folder = _installed(tmp_path_factory.getbasetemp().parent / "pagesim-browser-tests")

    def seen(page: Path, width: int, scheme: str, jump: str) -> dict[str, Any]:
        words = ["node", "look.mjs", chromium, str(page), str(width), scheme, jump]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return seen


def _installed(folder: Path) -> Path:
    """What package-lock.json names, once for all workers."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in ("package.json", "package-lock.json", "look.mjs"):
            shutil.copy(HERE / name, folder)
        if not (folder / "done").exists():
            words = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            try:
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                pytest.skip(f"npm ci took more than {SECONDS} s")
            if done.returncode:
                pytest.skip(f"npm ci failed: {done.stderr.strip().splitlines()[-1:]}")
            (folder / "done").touch()
    return folder
