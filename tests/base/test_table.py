"""A table keeps its order, refuses a second part of a name, and hands out copies."""

from __future__ import annotations

import pytest

from tvm_sparse.base.table import Table
from tvm_sparse.errors import InputError


def test_parts_are_added_and_removed_in_order():
    table = Table("number", {"one": 1})
    table.add("two", 2)
    assert list(table) == [1, 2]
    table.remove("one")
    table.remove("three")
    assert table.parts() == {"two": 2}


def test_a_second_part_of_a_name_is_refused():
    table = Table("number", {"one": 1})
    with pytest.raises(InputError, match="number 'one': is registered already; expected a new"):
        table.add("one", 11)
    assert list(table) == [1]


def test_changes_do_not_reach_the_table():
    table = Table("number", {"one": 1})
    table.parts().clear()
    for _ in table:
        table.remove("one")
    assert list(table) == []
