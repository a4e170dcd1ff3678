"""Tests of what is imported are compiled quickly, those of kernels as users compile."""

from __future__ import annotations

import pytest

from tests import llvm_level
from tests.kernels import host


class Item:
    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid, self.marks = nodeid, marks

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


@pytest.mark.parametrize(
    ("item", "level"),
    [
        (Item("tests/frontends/onnx/test_model.py::test"), 0),
        (Item("tests/dynamo/test_backend.py::test[x/y]"), 0),
        (Item("tests/frontends/test_load.py::test", "slow"), None),
        (Item("tests/passes/test_definitions.py::test", "optimised"), None),
        (Item("tests/ops/test_block.py::test"), None),
        (Item("tests/test_frontends.py::test"), None),
    ],
)
def test_the_level_follows_from_the_room(item, level):
    before = str(host())
    llvm_level.set_level(item)
    assert host().attrs.get("opt-level") == level
    llvm_level.set_level(Item("tests/ops/test_block.py::test"))
    assert str(host()) == before
