"""The page about the scheduler is true: its example is the first worked example of the recordings, all at step 0."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "scheduler.md"


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "0 {'A': 5, 'B': 9, 'C': 2} 6 []"
    assert "Sequence('C', finished" in lines[-1]


def test_every_module_is_on_one_of_the_two_pages() -> None:
    tables = [
        page.read_text().split("| file | noun |")[1].split("\n\n")[0] for page in (PAGE, PAGE.with_name("engine.md"))
    ]
    told = [name.rstrip("/") for table in tables for name in re.findall(r"`(\w+(?:\.py|/))`", table)]
    folder = PAGE.parents[1] / "engine"
    assert sorted(told) == sorted({path.relative_to(folder).parts[0] for path in folder.rglob("*.py")})
