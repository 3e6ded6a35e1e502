"""The pictures of the README and the gallery, made again: runs pagesim, opens its pages in a headless Chromium, and
photographs parts of them.

python docs/pictures/make.py

shots.json says which commands are run and what is photographed. Wants chromium, node, npm, and the extra `notebooks`.
Pictures go beside this file.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BROWSER = ROOT / "tests" / "browser"  # whose package.json names puppeteer
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
THIS = os.environ | {"PYTHONPATH": str(ROOT / "src")}  # the pictures are of this checkout
PAGES = {"run": "pagesim-run.html", "sweep": "pagesim-sweep/sweep.html", "frontier": "pagesim-frontier/frontier.html"}


def main() -> None:
    """All of it."""
    chromium = next((path for name in NAMES if (path := shutil.which(name))), None)
    if chromium is None or shutil.which("npm") is None or shutil.which("node") is None:
        sys.exit(f"no browser, node or npm; accepted: one of {', '.join(NAMES)}, and both")
    plan = json.loads((HERE / "shots.json").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page, command in plan["pages"].items():
            make_page(command, folder, page)
        make_lesson(ROOT / plan["lesson"], folder)
        for part in (BROWSER / "package.json", BROWSER / "package-lock.json", HERE / "shots.mjs", HERE / "shots.json"):
            shutil.copy(part, folder)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"], cwd=folder, check=True)
        subprocess.run(["node", "shots.mjs", chromium, str(HERE)], cwd=folder, check=True)


def make_page(command: str, folder: Path, page: str, *more: str) -> Path:
    """Run `command` in a folder of its own; its page, as PAGE.html in `folder`."""
    words = shlex.split(command)[1:]
    with tempfile.TemporaryDirectory() as name:
        ran = [sys.executable, "-m", "pagesim", *words, *more]
        subprocess.run(ran, cwd=name, check=True, env=THIS, capture_output=True)
        return Path(shutil.copy(Path(name) / PAGES[words[0]], folder / f"{page}.html"))


def make_lesson(notebook: Path, folder: Path) -> None:
    """The lesson with its figures, as lesson.html."""
    words = ["nbconvert", "--execute", "--to", "html", "--output-dir", str(folder), "--output", "lesson", str(notebook)]
    environment = THIS | {"PLOTLY_RENDERER": "notebook", "JUPYTER_PLATFORM_DIRS": "1"}
    subprocess.run([sys.executable, "-m", *words], env=environment, check=True, capture_output=True)


if __name__ == "__main__":
    main()
