"""Write the part of docs/cli.md that lists every command with its options.

    python tools/cli_page.py

The text comes from the command line itself; a test holds the page to it.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
BEGIN, END = "<!-- commands: tools/cli_page.py -->", "<!-- /commands -->"


def commands() -> str:
    """Return a section for each command: what it does, its arguments and options."""
    from tvm_sparse.cli import app

    return "\n".join(_section(c.name, c.callback) for c in app.registered_commands)


def _section(name: str, function: Callable[..., Any]) -> str:
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    text = "\n\n".join(" ".join(p.split()) for p in paragraphs)
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    rows = "\n".join(_row(p, hints[p.name]) for p in parameters)
    return f"### `{name}`\n\n{text}\n\n| Option | Does |\n|---|---|\n{rows}\n"


def _row(parameter: inspect.Parameter, hint: Any) -> str:
    """Return the row of a parameter ``name: Annotated[type, typer.Option(...)] = default``."""
    kind, info = get_args(hint)[:2]
    kinds = get_args(kind) if get_origin(kind) is types.UnionType else (kind,)
    metavar = info.metavar or {int: "N", float: "X"}.get(kinds[0], "TEXT")
    default = parameter.default
    if default is inspect.Parameter.empty:
        tail = " Required."
    elif isinstance(default, str | int | float | Path) and not isinstance(default, bool):
        tail = f" Default: `{default}`."
    else:
        tail = ""
    if "Argument" in type(info).__name__:
        names = f"`{metavar}`"
    else:
        plain = "--" + parameter.name.replace("_", "-")
        # Inside Annotated, Typer keeps the first declaration where the default would be.
        declared = (info.default, *(info.param_decls or ()))
        given = [d for d in declared if isinstance(d, str) and d.startswith("-")] or [plain]
        names = ", ".join(f"`{name}`" for name in sorted(given, key=lambda n: n.startswith("--")))
        if kind is bool and default:
            names += f", `--no-{given[0].removeprefix('--')}`"
        elif kind is not bool:
            names += f" `{metavar}`"
    return f"| {names} | {info.help}{tail} |"


def page(text: str, listed: str) -> str:
    """Return ``text`` with ``listed`` between the two marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{listed}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), commands()), encoding="utf-8")
