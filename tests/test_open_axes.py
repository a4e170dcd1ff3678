"""Number types, lanes, cache sizes and features are written where they belong, or say why not.

A line of code elsewhere that has one needs a comment, or a docstring of the constant, that says
what it is.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("engine", "formats", "ops", "passes", "selection", "tuning")
FILES = sorted(
    path
    for folder in (*(ROOT / "tvm_sparse" / room for room in ROOMS), ROOT / "schedules")
    for path in folder.rglob("*.py")
)

FORBIDDEN = {
    "number type": re.compile(r"\bfloat32\b"),
    "feature": re.compile(r"avx|sse[0-9]|\bneon\b|\bvnni\b"),
    "cache size": re.compile(r"<< *[12]0\b|\b1024 *\* *1024\b"),
}
LANES = re.compile(r"\b16\b")
"""On CPUs; warps and tensor cores have tiles of their own."""

STRINGS = {"number type", "feature"}
"""Sorts that are looked for inside strings, too."""


def violations(path: Path) -> list[str]:
    """Return the lines of code of ``path`` that have what belongs elsewhere, uncommented."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    sorts = dict(FORBIDDEN)
    if "cuda" not in path.parts and path.parts[-2] in ("ops", "cpu", "engine"):
        sorts["lanes"] = LANES
    code, strings = without_docstrings(text)
    found = []
    for number, line in enumerate(lines):
        for sort, pattern in sorts.items():
            seen = code[number] + (strings[number] if sort in STRINGS else "")
            if pattern.search(seen) and not explained(lines, number):
                found.append(f"{path.relative_to(ROOT)}:{number + 1}: {sort}: {line.strip()}")
    return found


def without_docstrings(text: str) -> tuple[list[str], list[str]]:
    """Return the code of each line without strings and comments, and its strings.

    A string that is a statement is a docstring, and left out.
    """
    count = text.count("\n") + 2
    code, strings = [""] * count, [""] * count
    begins = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row = token.start[0] - 1
        if token.type == tokenize.STRING and not begins:
            strings[row] += token.string
        elif token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP):
            code[row] += f" {token.string}"
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return code, strings


def explained(lines: list[str], number: int) -> bool:
    """Whether a comment stands on the line or before it, or a docstring follows its statement."""
    if "#" in lines[number] or lines[number - 1].lstrip().startswith("#"):
        return True
    following = lines[number + 1 :]
    closed = next((i for i, line in enumerate(following) if not line.startswith((" ", ")"))), None)
    constant = re.match(r"[A-Z0-9_, ]+(:.*)? = ", lines[number]) or lines[number].startswith(" ")
    return bool(constant and closed is not None and following[closed].startswith('"""'))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_axes_are_open(path):
    assert violations(path) == []


def test_the_test_sees_what_it_looks_for(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "ops" / "some.py"
    path.parent.mkdir()
    text = '"""Not float32 here."""\nx = "float32"\ny = 16\nz = 1 << 20\nw = 16  # rows\n'
    path.write_text(text + 'AT = 16\n"""Steps."""\n\nhas = "avx512f" in features\n')
    assert [line.split(": ")[1] for line in violations(path)] == [
        "number type",
        "lanes",
        "cache size",
        "feature",
    ]
