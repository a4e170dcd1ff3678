"""Keep what libraries print while importing a model away from the reader: errors tell it all."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings, log messages and text printed to stdout or stderr; exceptions pass."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.ERROR))
    nowhere = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
