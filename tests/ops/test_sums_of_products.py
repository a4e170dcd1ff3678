"""Contractions are told from everything else that adds up."""

from __future__ import annotations

import pytest
from tvm import te

from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.tensors.sums_of_products import products, sums_products
from tvm_sparse.schedules.build import scheduled

A = te.placeholder((8, 8), "float32", "A")
B = te.placeholder((8, 8), "float32", "B")


def _summed(term):
    k = te.reduce_axis((0, 8), "k")
    return te.compute((8, 8), lambda i, j: te.sum(term(i, j, k), axis=k), name="sums")


CASES = {
    "product": (lambda i, j, k: A[i, k] * B[k, j], True),
    "product in double": (
        lambda i, j, k: A[i, k].astype("float64") * B[k, j].astype("float64"),
        True,
    ),
    "one tensor with itself": (lambda i, j, k: A[i, k] * A[k, j], True),
    "sum": (lambda i, j, k: A[i, k] + B[k, j], False),
    "squares": (lambda i, j, k: A[i, k] * A[i, k], False),
    "multiples": (lambda i, j, k: A[i, k] * 2.0, False),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("with_schedule", [False, True])
def test_products_of_two_elements_are_found(case, with_schedule):
    term, expected = CASES[case]
    func = te.create_prim_func([A, B, _summed(term)])
    if with_schedule:
        func = scheduled(func, parse_target("cpu").target)["main"]
    assert sums_products(func) is expected


@pytest.mark.parametrize("with_schedule", [False, True])
def test_products_are_counted(with_schedule):
    func = te.create_prim_func([A, B, _summed(CASES["product"][0])])
    if with_schedule:
        func = scheduled(func, parse_target("cpu").target)["main"]
    assert products(func) == 8**3
