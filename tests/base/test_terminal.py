"""What users and files call things is shown as it is: no markup, no emoji, no control codes."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tvm_sparse.base import terminal

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["a[0]", "[/bold]", "[red", "[link=file:///etc]x[/link]", ":smile:", "\\[x]", "\x1b[31mred"]


@pytest.fixture(params=[terminal.console, Console], ids=["ours", "the user's"])
def shown(request):
    """A function that prints on a console and returns the text."""

    def show(*renderables):
        file = io.StringIO()
        request.param(file=file, width=200, color_system=None).print(*renderables)
        return file.getvalue()

    return show


@pytest.mark.parametrize("name", NAMES)
def test_tables_show_names_as_they_are(shown, name):
    table = terminal.table(name)
    table.add_column("layer")
    terminal.add_row(table, [name])
    text = shown(table)
    assert text.count(terminal.printable(name)) == 2
    assert "\x1b" not in text


@pytest.mark.parametrize("name", NAMES)
def test_lines_show_names_as_they_are(shown, name):
    assert shown(terminal.plain(f"wrote {name}")) == f"wrote {terminal.printable(name)}\n"


def test_nothing_else_makes_consoles_and_tables():
    """Text reaches rich through this module alone, so that none of it is read as markup."""
    own = ROOT / "tvm_sparse" / "base" / "terminal.py"
    files = [*(ROOT / "tvm_sparse").rglob("*.py"), *(ROOT / "frontends").rglob("*.py")]
    makes = re.compile(r"\b(Console|Table|Text|Panel|Markdown|from_markup)\(|\brich\.print\b")
    found = {
        str(path.relative_to(ROOT)): line
        for path in files
        if path != own
        for line in path.read_text(encoding="utf-8").splitlines()
        if makes.search(line) and "Table[" not in line and "rich" in path.read_text("utf-8")
    }
    assert found == {}
