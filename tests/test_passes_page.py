"""docs/design/passes.md says what the lists of passes say."""

from __future__ import annotations

import pytest

from tests import tools

passes_page = tools.load("passes_page")


@pytest.fixture(autouse=True, params=["1", "2", "4"])
def threads(monkeypatch, request):
    """The page does not depend on this machine."""
    monkeypatch.setenv("TVM_NUM_THREADS", request.param)


def test_the_page_is_what_the_tool_writes():
    assert passes_page.PAGE.read_text(encoding="utf-8") == passes_page.page(), (
        "python tools/passes_page.py writes it anew"
    )


def test_every_pass_of_ours_says_what_it_does():
    rows = [row for row in passes_page.page().splitlines() if row.startswith("| `")]
    ours = [row for row in rows if "tvm_sparse/passes/" in row]
    assert len(ours) > 60
    assert all(len(row.split("|")[3].split()) >= 4 for row in ours)
