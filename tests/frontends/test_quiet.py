"""Nothing of a library's chatter comes through, and everything is as before afterwards."""

from __future__ import annotations

import logging
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from tvm_sparse.frontends.quiet import quiet


def chatter() -> None:
    print("text")
    print("more", file=sys.stderr)
    warnings.warn("beware", UserWarning, stacklevel=1)
    logging.getLogger("library").warning("look")


def test_chatter_is_suppressed_inside_only(capsys, caplog):
    with quiet():
        chatter()
    assert capsys.readouterr() == ("", "") and caplog.records == []
    with pytest.warns(UserWarning, match="beware"):
        chatter()
    assert capsys.readouterr() == ("text\n", "more\n") and len(caplog.records) == 1


def test_exceptions_pass_and_what_was_logged_with_them_does_not(caplog):
    with pytest.raises(ValueError, match="wrong"), quiet():
        logging.getLogger("library").error("failed")
        raise ValueError("wrong")
    assert caplog.records == []
    assert logging.root.manager.disable == logging.NOTSET


def test_blocks_of_threads_that_overlap_leave_all_as_it_was(capsys):
    """The first one to begin ends before the second: each would restore what the other made."""
    filters, streams = list(warnings.filters), (sys.stdout, sys.stderr)
    first, second = quiet(), quiet()
    first.__enter__()
    with ThreadPoolExecutor(1) as other:
        other.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        chatter()
        other.submit(second.__exit__, None, None, None).result()
    assert capsys.readouterr() == ("", "")
    assert (sys.stdout, sys.stderr) == streams
    assert warnings.filters == filters
    assert logging.root.manager.disable == logging.NOTSET
