"""Nothing of a library's chatter comes through, and everything is as before afterwards."""

from __future__ import annotations

import logging
import sys
import warnings

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
