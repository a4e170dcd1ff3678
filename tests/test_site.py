"""The documentation builds as a site without a warning, and its drawings come from the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site):
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        folder = "" if name == "README" else name
        assert (site / folder / "index.html").is_file(), name


def test_links_within_the_site_lead_somewhere(site):
    """Those that mkdocs does not see: links to the pages of the top folder."""
    page = (site / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="((?:CONTRIBUTING|CHANGELOG)[^"#]*)', page)
    assert links
    assert all((site / link / "index.html").is_file() for link in links)


def test_the_reference_has_docstrings(site):
    page = (site / "api" / "index.html").read_text(encoding="utf-8")
    for name in ("compile", "Library", "Config", "tune", "one_shot", "load"):
        assert re.search(rf'id="[\w.]*\.{name}"', page), name
    assert ":class:" not in page


def test_drawings_come_from_the_code():
    module = tools.load("pattern_pages")
    drawn = module.drawings()
    files = {path.stem: path.read_text(encoding="utf-8") for path in module.FOLDER.glob("*.svg")}
    assert files == drawn, "run tools/pattern_pages.py"
    page = (ROOT / "docs" / "patterns.md").read_text(encoding="utf-8")
    for name in drawn:
        assert f"(patterns/{name}.svg)" in page
