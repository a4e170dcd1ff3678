"""Hooks of mkdocs: pages of the top folder join the site, links to other files are left to Git."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
ROLE = re.compile(r":(?:class|func|data|meth|mod|attr):<code>(~?)([\w.]+)</code>")
"""What docstrings write as ``:class:`~package.Name```."""


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages of the top folder."""
    for name in PAGES:
        content = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_others: Any) -> str:
    """Point links at pages of the site; what is no page becomes plain text with its path."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        name = path.removeprefix("../")
        if files.get_file_from_path(path) is not None:
            return match[0]
        if name in PAGES:
            up = posixpath.relpath(name, folder or ".")
            return f"{image}[{text}]({up}{anchor or ''})"
        if (ROOT / name).exists():
            return f"{text} (`{name}`)"
        return match[0]

    return LINK.sub(replaced, markdown)


def on_page_content(html: str, **_others: Any) -> str:
    """Show roles of docstrings as the names that they stand for."""
    return ROLE.sub(lambda m: f"<code>{m[2].rpartition('.')[2] if m[1] else m[2]}</code>", html)
