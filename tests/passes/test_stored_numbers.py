"""Numbers in what is stored: found in order, replaced, and those left alone that say where."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx

from tests.passes.functions import defined, stored_numbers
from tvm_sparse.ops.marks import OPERATOR
from tvm_sparse.passes.finish.stored_numbers import change_numbers, word_of

X = ((8, 4), "float32")


@pytest.mark.parametrize(
    "value, expected",
    [
        (lambda x, i, j: x[i, j] * 2.5 + 0.5, [2.5, 0.5]),
        (lambda x, i, j: tirx.exp(x[i, j] - 3.0), [3.0]),
        (lambda x, i, j: tirx.if_then_else(i < 3, x[i, j], tirx.const(7.0, "float32")), [7.0]),
        (lambda x, i, j: tirx.Select(j < 2, x[i, j] / 9.0, x[i, j]), [9.0]),
        (lambda x, i, j: x[tirx.max(i - 1, 0), tirx.const(3, "int64")], []),
        (lambda x, i, j: tirx.Cast("int32", x[i, j]) - 5, [5]),
        (lambda x, i, j: tirx.Cast("uint8", x[i, j]) + tirx.const(200, "uint8"), [200]),
        (lambda x, i, j: tirx.Cast("float64", x[i, j]) * tirx.const(2.5, "float64"), []),
    ],
)
def test_numbers_are_found_where_values_are_computed(value, expected):
    func = defined(lambda x: te.compute((8, 4), lambda i, j: value(x, i, j)), X)
    assert stored_numbers(func) == expected


def test_an_operators_own_block_is_left_alone():
    func = defined(
        lambda x: te.compute((8, 4), lambda i, j: x[i, j] * 2.0, attrs={OPERATOR: "dense"}), X
    )
    assert stored_numbers(func) == []


def test_words_keep_every_bit():
    assert word_of(tirx.const(-0.0, "float32")) == -(2**31)
    assert word_of(tirx.const(1.0, "float32")) == np.float32(1).view(np.int32)
    assert word_of(tirx.const(255, "uint8")) == 255


def test_numbers_are_asked_for_once_each():
    func = defined(lambda x: te.compute((8, 4), lambda i, j: x[i, j] * 2.0 + 2.0), X)
    seen: list[float] = []
    body = change_numbers(func.body, lambda n: seen.append(n.value) or tirx.const(4.0, "float32"))
    assert seen == [2.0, 2.0]
    assert stored_numbers(func.with_body(body)) == [4.0, 4.0]
