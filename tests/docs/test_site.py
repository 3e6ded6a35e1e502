"""The pages of docs/ become a site: no link that leads nowhere, no page that cannot be reached."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("material", reason="needs pagesim[docs]")

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built so that a broken link, an anchor that is not there or a page that is missing stops it."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_the_site_and_its_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in PAGES:
        assert page == "index" or ((site / page / "index.html").is_file() and f'href="{page}/"' in menu), page


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", page.read_text())
        assert not loaded, (page, loaded)


def test_the_first_page_leads_to_every_other() -> None:
    linked = set(re.findall(r"\]\((\w[\w-]*)\.md", (ROOT / "docs" / "index.md").read_text()))
    assert linked == set(PAGES) - {"index"}
