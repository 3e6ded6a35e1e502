"""Builds the lessons that run in a browser as a static JupyterLite site, with pagesim's wheel and others inside.

    python notebooks/lite.py [--out FOLDER]

What is compiled (numpy, scipy, msgspec) is not in the site: Pyodide's own builds come from its network when a lesson
is opened.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build import FOLDER, IN_BROWSER

ROOT = FOLDER.parent
CARRIED = ("simpy", "plotly", "ipywidgets", "jupyterlab_widgets")  # wheels without compiled parts
UNBUILT = shutil.ignore_patterns(".*", "tests", "*.egg-info", "__pycache__", "build", "dist", "site", "notebooks")
DEFAULT = ROOT / "build" / "lite"
SETTINGS = {  # the app is exposed to a page's script, so that a test can press its buttons
    "jupyter-lite-schema-version": 0,
    "jupyter-config-data": {"appName": "pagesim", "exposeAppInBrowser": True},
}


def lessons() -> list[Path]:
    """The students' notebooks that need nothing a browser lacks."""
    return sorted(path for path in FOLDER.glob("*.ipynb") if path.name[:2] in IN_BROWSER)


def wheels(folder: Path) -> list[Path]:
    """pagesim's wheel, of a copy of the checkout, and those that are carried, in `folder`."""
    source = folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=UNBUILT)
    _run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source))
    pins = ["--constraint", str(ROOT / "requirements.lock")]
    _run(
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        *pins,
        "--dest",
        str(folder),
        *CARRIED,
    )
    return sorted(folder.glob("*.whl"))


def check_out(out: Path) -> None:
    """Leave, with a word, if something else than a site lies where it would go: that would be gone."""
    if out.exists() and not (out.is_dir() and ((out / "jupyter-lite.json").is_file() or not any(out.iterdir()))):
        sys.exit(f"error: --out {out}: there is something else; accepted: a new folder, an empty one, or a site's")


def build_site(out: Path) -> None:
    """Write the site to `out`, which is made anew."""
    check_out(out)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        contents = folder / "contents"
        contents.mkdir()
        for lesson in lessons():
            shutil.copy(lesson, contents)
        packed = [word for wheel in wheels(folder) for word in ("--piplite-wheels", str(wheel))]
        shutil.rmtree(out, ignore_errors=True)
        words = [
            "--contents",
            str(contents),
            "--output-dir",
            str(out.resolve()),
            "--lite-dir",
            str(folder / "lite"),
            *packed,
        ]
        (folder / "lite").mkdir()
        (folder / "lite" / "jupyter-lite.json").write_text(json.dumps(SETTINGS))
        _run("-m", "jupyter", "lite", "build", *words, folder=folder)  # it leaves a database where it runs


def _run(*words: str, folder: Path | None = None) -> None:
    """A module of this Python; what it says is shown if it fails."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nerror: {' '.join(words[:4])} failed")


def main() -> None:
    """Build it, and say where it is."""
    parser = argparse.ArgumentParser(description="Build the lessons as a static site that runs in a browser.")
    parser.add_argument("--out", type=Path, default=DEFAULT, help=f"where it goes [default: {DEFAULT.name}]")
    out = parser.parse_args().out.resolve()
    build_site(out)
    print(f"site: {out}; serve it with: python -m http.server --bind 127.0.0.1 --directory {out}")


if __name__ == "__main__":
    main()
