"""Check the words of docstrings, comments and pages: one word a thing, no sentence too long.

    python tools/prose.py

A piece of code in backquotes counts as one word. Tables and blocks of code are left out, and pages
that scripts write.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
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
    "tests",
    "examples",
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
    "utili[sz]e": "use",
    "leverage": "use",
    "please": "nothing",
    "simply": "nothing",
    "storages?": "format; layout, of a file's tensors",
    "keep of bank": "n of m",
}
"""Expressions, each with what to write. They match whole words, in any case."""

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
                if found := re.search(rf"\b{word}\b", sentence, re.I):
                    yield Finding(file, f"'{found[0]}': write '{better}'", sentence)


def _in_sources() -> Iterator[Finding]:
    for file in sorted(f for root in SOURCES for f in (ROOT / root).rglob("*.py")):
        code = file.read_text(encoding="utf-8")
        for line, text in (*_docstrings(code), *_comments(code)):
            yield from checked(text, f"{file.relative_to(ROOT)}:{line}")


def _docstrings(code: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of each docstring, those of constants and fields too, with its line."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.lineno, _prose(inspect.cleandoc(node.value.value))


def _comments(code: str) -> Iterator[tuple[int, str]]:
    """Yield each comment with its line; those of lines one below the other are one."""
    found: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("# ")
        own = not token.line[: token.start[1]].strip()
        if own and found and found[-1][0] + found[-1][1].count("\n") + 1 == line:
            found[-1] = found[-1][0], f"{found[-1][1]}\n{text}"
        else:
            found.append((line, text))
    yield from found


def _in_pages() -> Iterator[Finding]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        if not set(LEFT_OUT).isdisjoint(page.relative_to(ROOT).parts):
            continue
        text = re.sub(r"^```.*?^```$", "\n\n", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        yield from checked(re.sub(r"<!--.*?-->", "\n\n", text), str(page.relative_to(ROOT)))


def _prose(docstring: str) -> str:
    """Return a docstring without its indented blocks, which are code, and names of parameters."""
    text = re.sub(r"(?:^|\n\n)(?:[ ]{4,}.*\n?|\n)+", "\n\n", docstring)
    return re.sub(r"^\w+(?:, \w+)*\n(?=    \S)", "\n", text, flags=re.M)


if __name__ == "__main__":
    sys.exit(main())
