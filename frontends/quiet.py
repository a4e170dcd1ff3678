"""Keep what libraries print while importing a model away from the reader: errors tell it all."""

from __future__ import annotations

import contextlib
import io
import logging
import threading
import warnings
from collections.abc import Iterator

_LOCK = threading.Lock()
_OPEN: list[object] = []
"""The blocks that are quiet now, in all threads."""
_RESTORED = contextlib.ExitStack()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings, log messages and text printed to stdout or stderr; exceptions pass.

    Streams, filters and the log belong to the process. Where several threads have such a block, the
    first one that begins silences it, and the last one that ends restores what was before.
    """
    block = object()
    with _LOCK:
        if not _OPEN:
            _silence()
        _OPEN.append(block)
    try:
        yield
    finally:
        with _LOCK:
            _OPEN.remove(block)
            if not _OPEN:
                _RESTORED.close()


def _silence() -> None:
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))
    _RESTORED.callback(logging.disable, before)
    nowhere = io.StringIO()
    _RESTORED.enter_context(warnings.catch_warnings())
    _RESTORED.enter_context(contextlib.redirect_stdout(nowhere))
    _RESTORED.enter_context(contextlib.redirect_stderr(nowhere))
    warnings.simplefilter("ignore")
