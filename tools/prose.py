"""Check the words of docstrings and pages: no sentence is too long to be read once.

    python tools/prose.py

A piece of code in backquotes counts as one word. Tables and blocks of code are left out, and pages
that scripts write.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    "tvm_sparse",
    "frontends",
    "schedules",
    "python/tvm_sparse_runtime",
    "emulator",
    "tools",
    "benchmarks",
)
LEFT_OUT = (
    "performance",
    "operators.md",
    "cli.md",
    "passes.md",
    "notebook.md",
    "operators_notebook.md",
)
"""Folders and pages below docs/ that scripts write, or that record what was measured when."""

MOST_WORDS = 30
INSTEAD = {
    "utilise": "use",
    "utilize": "use",
    "leverage": "use",
    "please": "nothing",
    "simply": "nothing",
}

CODE = re.compile(r":[a-z]+:`[^`]*`|``+[^`]+``+|`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[*\-#>|]|\d+\.) )|\n(?=\s*\|)|\n\s*-{3,}\s*\n|\n(?=#)")
END = re.compile(r"(?<=[.!?:;])[\"')*_]*\s+")


class Finding(NamedTuple):
    """What is wrong with a sentence of ``file``."""

    file: str
    why: str
    sentence: str


def main() -> int:
    """Print what is found; return 1 if anything is."""
    found = [*_in_sources(), *_in_pages()]
    for finding in found:
        print(f"{finding.file}: {finding.why}: {finding.sentence}")
    return bool(found)


def checked(text: str, file: str) -> Iterator[Finding]:
    """Yield what is wrong in ``text``, of Markdown or of a docstring."""
    for paragraph in BREAK.split(LINK.sub(r"\1", CODE.sub("x", text))):
        if paragraph.lstrip().startswith("|"):
            continue
        for sentence in END.split(" ".join(paragraph.split())):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if len(words) > MOST_WORDS:
                yield Finding(file, f"{len(words)} words, {MOST_WORDS} at most", sentence)
            for word, better in INSTEAD.items():
                if word in sentence.lower():
                    yield Finding(file, f"'{word}': write '{better}'", sentence)


def _in_sources() -> Iterator[Finding]:
    for file in sorted(f for root in SOURCES for f in (ROOT / root).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                yield from checked(_prose(text), f"{file.relative_to(ROOT)}:{_line(node)}")


def _in_pages() -> Iterator[Finding]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        if not set(LEFT_OUT).isdisjoint(page.relative_to(ROOT).parts):
            continue
        text = re.sub(r"^```.*?^```$", "\n\n", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        yield from checked(re.sub(r"<!--.*?-->", "\n\n", text), str(page.relative_to(ROOT)))


def _prose(docstring: str) -> str:
    """Return a docstring without its indented blocks, which are code."""
    return re.sub(r"(?:^|\n\n)(?:[ ]{4,}.*\n?|\n)+", "\n\n", docstring)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 1)


if __name__ == "__main__":
    sys.exit(main())
