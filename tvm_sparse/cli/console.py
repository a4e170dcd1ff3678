"""Where a command writes: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import typer

from tvm_sparse.base import terminal
from tvm_sparse.errors import SparseError
from tvm_sparse_runtime.errors import SparseRuntimeError

PIPE_WIDTH = 140
"""Columns of a table that is not written to a terminal; lines of text are as long as they are."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of the signal."""


def show(*renderables: Any) -> None:
    """Print results to stdout."""
    piped = not sys.stdout.isatty()
    console = terminal.console(width=PIPE_WIDTH if piped else None)
    for renderable in renderables:
        if isinstance(renderable, str):
            console.print(terminal.plain(renderable), soft_wrap=piped)
        else:
            console.print(renderable)


def show_json(value: Any) -> None:
    """Print one JSON object to stdout."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def note(message: str) -> None:
    """Print a remark to stderr, where it does not disturb a pipe."""
    terminal.console(stderr=True, soft_wrap=True).print(terminal.plain(message))


def log(verbosity: int) -> None:
    """Send the package's log to stderr: phases of the work, from 2 on every pass, too."""
    if not verbosity:
        return
    logger = logging.getLogger("tvm_sparse")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner on stderr while the block runs; nothing is drawn without a terminal."""
    console = terminal.console(stderr=True)
    with console.status(terminal.plain(what)) if console.is_terminal else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def errors(debug: bool) -> Iterator[None]:
    """Turn any error of the block into one line on stderr and exit status 1, Ctrl-C into 130.

    With ``debug`` the error passes through, traceback and all. Usage errors (status 2) and
    deliberate exits always do.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        note("interrupted")
        raise typer.Exit(INTERRUPTED) from stop
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if debug:
            raise
        _explain(error)
        raise typer.Exit(1) from error


def _explain(error: Exception) -> None:
    if isinstance(error, SparseError | SparseRuntimeError):
        note(f"error: {error}")
        return
    text = str(error).strip().splitlines()
    note(f"error: {type(error).__name__}: {text[0] if text else 'no message'}")
    note("This is not an error the program expected; --debug shows the traceback.")
