"""The shape of the package: the links that make one importable name, and who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pagesim"
LINKS = {"sim": "../../sim", "engine": "../../engine", "kernels": "../../kernels", "validate": "../../validate"}
MAY_IMPORT = {
    "sim": {"sim"},
    "kernels": {"kernels"},
    "engine": {"engine", "kernels"},
    "validate": {"validate", "sim", "engine", "kernels"},
}
HEAVY_FOR_SIM = {"torch", "triton", "transformers", "typer", "pydantic", "click"}


def modules(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Dotted names that a module imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_links_are_complete() -> None:
    found = {path.name: str(path.readlink()) for path in PACKAGE.iterdir() if path.is_symlink()}
    assert found == {**LINKS, "cli.py": "../../cli.py"}
    assert all(path.exists() for path in PACKAGE.iterdir())


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_each_part_imports_only_what_it_may(part: str) -> None:
    allowed = {f"pagesim.{name}" for name in MAY_IMPORT[part]} | {"pagesim.__version__"}
    files = modules(ROOT / part)
    assert files
    for path in files:
        for name in imported(path):
            if name.split(".")[0] == "pagesim":
                assert ".".join(name.split(".")[:2]) in allowed, f"{path} imports {name}"


def test_sim_imports_nothing_heavy() -> None:
    for path in modules(ROOT / "sim"):
        for name in imported(path):
            assert name.split(".")[0] not in HEAVY_FOR_SIM, f"{path} imports {name}"


def test_kernels_package_loads_neither_torch_nor_triton() -> None:
    assert not {name.split(".")[0] for name in imported(ROOT / "kernels" / "__init__.py")} & {"torch", "triton"}
    assert "__version__" not in (ROOT / "kernels" / "__init__.py").read_text()


def test_help_loads_no_library() -> None:
    code = (
        "import sys; sys.argv = ['pagesim', '--help']\n"
        "from pagesim.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "libraries = {'numpy', 'scipy', 'plotly', 'pyarrow', 'torch', 'simpy', 'msgspec', 'jinja2', 'rich'}\n"
        "assert not libraries & set(sys.modules), libraries & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: pagesim" in done.stdout
