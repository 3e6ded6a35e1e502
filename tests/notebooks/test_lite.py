"""The lessons in a browser: what the site holds, what `sim` imports there, and that it opens."""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jupyterlite_core", reason="needs pagesim[lite]")
pytest.importorskip("jupyterlite_pyodide_kernel", reason="needs pagesim[lite]")
pytest.importorskip("jupytext", reason="needs pagesim[dev]")

import browser
import build
import lite
from jupyterlite_pyodide_kernel.constants import PYODIDE_VERSION

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYODIDE: dict[str, Any] = json.loads((HERE / "pyodide.json").read_text())  # its lock file's names
CLUSTERS = {"ray", "distributed"}  # imported where a sweep is spread over machines, and nowhere else
OPEN_S, RUN_S = 120, 600
CELLS = "document.querySelectorAll('.jp-Notebook .jp-Cell').length"
LISTED = "[...document.querySelectorAll('.jp-DirListing-itemText')].map(each => each.innerText).join(' ')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lite") / "site"
    lite.build_site(out)
    return out


def names(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.glob(pattern)}


def test_a_folder_of_something_else_is_not_made_anew(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit, match="there is something else"):
        lite.build_site(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_the_site_holds_the_students_lessons(site: Path) -> None:
    wanted = {f"{source.stem}.ipynb" for source in build.sources() if source.name[:2] in build.IN_BROWSER}
    assert len(wanted) == 6
    assert names(site / "files", "*.ipynb") == wanted
    for name in wanted:
        assert (site / "files" / name).read_text() == (build.FOLDER / name).read_text()
    assert "BEGIN SOLUTION" not in "".join(path.read_text() for path in (site / "files").glob("*"))


def test_the_site_carries_our_wheel_and_others(site: Path) -> None:
    carried = {name.split("-")[0] for name in names(site / "pypi", "*.whl")}
    assert carried == {"pagesim", *lite.CARRIED}
    assert carried <= {name.replace("-", "_") for name in json.loads((site / "pypi" / "all.json").read_text())}
    (wheel,) = (site / "pypi").glob("pagesim-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    for path in (ROOT / "sim").rglob("*"):
        if path.suffix in (".py", ".json", ".html"):
            assert f"pagesim/{path.relative_to(ROOT).as_posix()}" in held, path


def test_the_kernel_is_of_the_pyodide_whose_packages_are_known() -> None:
    assert PYODIDE["pyodide"] == PYODIDE_VERSION


def test_every_import_of_sim_is_pyodides_or_carried() -> None:
    there = {name.replace("-", "_").lower() for name in PYODIDE["packages"]} | set(lite.CARRIED) | {"pagesim"}
    for path in (ROOT / "sim").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in {module.split(".")[0] for module in modules} - sys.stdlib_module_names - CLUSTERS:
                assert module.lower() in there, f"{path} imports {module}"


@pytest.mark.skipif(browser.found() is None, reason="no Chromium on this machine")
def test_it_opens_and_lists_the_lessons(site: Path, tmp_path: Path) -> None:
    name = lite.lessons()[0].name
    with browser.served(site) as address, browser.opened(f"{address}/lab/index.html?path={name}", tmp_path) as page:
        assert page.wait_for(f"{LISTED}.includes('.ipynb') && {LISTED}", OPEN_S)
        listed = page.value(LISTED)
        assert all(lesson.name in listed for lesson in lite.lessons())
        assert page.wait_for(f"{CELLS} > 20", OPEN_S)


@pytest.mark.skipif(browser.found() is None, reason="no Chromium on this machine")
def test_a_lesson_runs_to_its_end_in_the_browser(site: Path, tmp_path: Path) -> None:
    """The first, with its solutions."""
    shutil.copytree(site, tmp_path / "solved")
    name = lite.lessons()[0].name
    shutil.copy(build.SOLUTIONS / name, tmp_path / "solved" / "files")
    scripts = (site / "extensions" / "@jupyterlite" / "pyodide-kernel-extension" / "static").glob("*.js")
    (pyodide,) = {url for path in scripts for url in re.findall(r"https://[\w./@-]+/pyodide\.mjs", path.read_text())}
    url = "lab/index.html?path=" + name
    with browser.served(tmp_path / "solved") as address, browser.opened(f"{address}/{url}", tmp_path / "user") as page:
        assert page.wait_for("window.jupyterapp !== undefined", OPEN_S)
        if not page.value(f"fetch('{pyodide}').then(answer => answer.ok, () => false)"):
            pytest.skip(
                "Pyodide's network cannot be reached from here, and numpy's build for a browser comes from there"
            )
        assert page.wait_for(CELLS, OPEN_S)
        notebook = "jupyterapp.shell.currentWidget"
        page.value(f"{notebook}.sessionContext.ready")
        page.value("jupyterapp.commands.execute('notebook:run-all-cells')")
        cells = f"{notebook}.content.model.sharedModel.cells.filter(cell => cell.cell_type === 'code')"
        page.wait_for(f"{cells}.every(cell => cell.execution_count)", RUN_S)
        failed = (
            f"{cells}.flatMap(cell => cell.outputs).filter(out => out.output_type === 'error').map(out => out.evalue)"
        )
        assert page.value(failed) == []
        assert page.value(f"{cells}.every(cell => cell.execution_count)")
