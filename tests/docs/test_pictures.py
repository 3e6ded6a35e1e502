"""The pictures of the README and the docs are there and small; what the script photographs is still on the pages."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
PLAN = json.loads((PICTURES / "shots.json").read_text())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHORT = {"run": ["--requests", "120", "--runs", "1"], "sweep": ["--requests", "40", "--seeds", "1"]}
SHORT["frontier"] = SHORT["sweep"]
MOST_BYTES, MOST_BYTES_IN_ALL = 150_000, 700_000


def make() -> Any:
    spec = importlib.util.spec_from_file_location("make", PICTURES / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def named() -> set[Path]:
    """Every picture that a page shows."""
    return {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
    }


def test_pictures_are_shown_made_and_small() -> None:
    photographed = {PICTURES / shot["picture"] for shot in PLAN["shots"]}
    assert photographed == {path for path in named() if path.suffix == ".png"}
    assert set(PICTURES.glob("*.png")) == photographed
    sizes = {path.name: path.stat().st_size for path in photographed}
    assert {name: size for name, size in sizes.items() if size > MOST_BYTES} == {}
    assert sum(sizes.values()) < MOST_BYTES_IN_ALL


def test_the_gallery_says_the_command_of_each_picture() -> None:
    sections = (ROOT / "docs" / "gallery.md").read_text().split("\n## ")
    for shot in PLAN["shots"]:
        (section,) = [each for each in sections if f"pictures/{shot['picture']}" in each]
        wanted = PLAN["lesson"] if shot["page"] == "lesson" else PLAN["pages"][shot["page"]]
        assert f"`{wanted}`" in section, shot["picture"]


@pytest.mark.parametrize("page", PLAN["pages"])
def test_what_is_photographed_is_on_a_fresh_page(page: str, tmp_path: Path) -> None:
    command = PLAN["pages"][page]
    words = SHORT[command.split()[1]]
    html = make().make_page(command, tmp_path, page, *words).read_text()
    script = html.split('id="map-data"')[-1]  # what draws the map makes its parts
    for shot in PLAN["shots"]:
        if shot["page"] == page:
            for place in re.findall(r"#([\w-]+)", shot["from"] + " " + shot["to"]):
                assert f'id="{place}"' in html, place
            for part in re.findall(r"\.([\w-]+)", shot["from"] + " " + shot["to"]):
                assert f'className = "{part}"' in script, part
            if "section:has" in shot["from"]:
                assert re.search(r"<section>\s*<h2>", html)
            if "jump" in shot:
                assert f"{{{shot['jump']}: " in script and "button.dataset.jump = name" in script


def test_the_lesson_that_is_photographed_has_a_figure_with_so_many_frames() -> None:
    text = (ROOT / PLAN["lesson"]).read_text()
    (shot,) = [shot for shot in PLAN["shots"] if shot["page"] == "lesson"]
    assert "framed(moments" in text and shot["frame"] > 0
