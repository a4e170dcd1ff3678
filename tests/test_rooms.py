"""The picture of the rooms is what the imports say."""

from __future__ import annotations

import sys

import pytest

from tests import tools


@pytest.fixture
def rooms(monkeypatch):
    monkeypatch.syspath_prepend(str(tools.TOOLS))
    module = tools.load("rooms")
    yield module
    sys.modules.pop("staged_tree", None)


def test_arrows_that_follow_from_others_are_left_out(rooms):
    pairs = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "d")]
    assert rooms.reduced(pairs) == [("a", "b"), ("b", "c"), ("a", "d")]
    picture = rooms.mermaid([*pairs, ("a", "errors"), ("cli", "a")])
    assert "a --> b" in picture
    assert "errors" not in picture
    assert "cli" not in picture


def test_the_page_is_up_to_date(rooms):
    text = rooms.PAGE.read_text(encoding="utf-8")
    assert rooms.page(text, rooms.mermaid(rooms.room_imports())) == text, "run tools/rooms.py"
