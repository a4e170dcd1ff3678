"""Where a command writes: results to stdout, progress and errors to stderr."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from tvm_sparse.base import terminal
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse_runtime.errors import SparseRuntimeError

PIPE_WIDTH = 140
"""Columns of a table that is not written to a terminal; lines of text are as long as they are."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 and the number of the signal."""


def show(*renderables: Any) -> None:
    """Print results to stdout."""
    piped = not sys.stdout.isatty()
    console = terminal.console(width=PIPE_WIDTH if piped else None)
    with writing():
        for renderable in renderables:
            if isinstance(renderable, str):
                console.print(terminal.plain(renderable), soft_wrap=piped)
            else:
                console.print(renderable)


def show_json(value: Any) -> None:
    """Print one JSON object to stdout; numbers that are not finite are null in it."""
    text = json.dumps(_finite(value), indent=2, allow_nan=False) + "\n"
    with writing():
        sys.stdout.write(text)


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Write to stdout what the block prints.

    Raises
    ------
    InputError
        It cannot be written. Where nobody reads it any more, the process exits without a word.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError):  # what is left in a buffer must not fail once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(1) from error
        told = f"cannot be written ({error.strerror or error})"
        raise InputError("stdout", told, "a place for the results") from error


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        note(f"error: {' '.join(map(str.strip, str(error).splitlines()))}")
        return
    text = str(error).strip().splitlines()
    note(f"error: {type(error).__name__}: {text[0] if text else 'no message'}")
    note("This is not an error the program expected; --debug shows the traceback.")
