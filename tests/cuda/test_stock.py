"""TVM's default rules: reductions of any size are right, with lanes that are there."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx

from tests.cuda.kernels import executed, needs_nvrtc, typed
from tvm_sparse.schedules.build import scheduled
from tvm_sparse.schedules.cuda.stock import StockRule

INNER = [(1, 1), (1, 2), (1, 16), (3, 5), (17, 8), (1, 31), (5, 33), (2, 48), (1, 100)]
REDUCE = {"sum": te.sum, "max": te.max, "min": te.min}
EXACT = {"sum": np.sum, "max": np.max, "min": np.min}


def reduction(kind, shape, axis, dtype):
    """Return ``f(A, B)``: a matrix reduced along an axis."""
    a = te.placeholder(shape, dtype, "A")
    k = te.reduce_axis((0, shape[axis]), "k")
    place = (lambda i: (i, k)) if axis == 1 else (lambda i: (k, i))
    b = te.compute((shape[1 - axis],), lambda i: REDUCE[kind](a[place(i)], axis=k), "B")
    return te.create_prim_func([a, b])


def product(rows, columns, reduced, dtype):
    """Return ``f(A, B, C)``: a batch of one product, as attention writes it."""
    a = te.placeholder((2, rows, reduced), dtype, "A")
    b = te.placeholder((2, columns, reduced), dtype, "B")
    k = te.reduce_axis((0, reduced), "k")
    c = te.compute((2, rows, columns), lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k), "C")
    return te.create_prim_func([a, b, c])


def whole_numbers(shape, dtype):
    return typed(np.random.default_rng(0).integers(-2, 3, shape), dtype)


def quick(cases, count):
    """Return ``cases``, all but the first ``count`` of them slow."""
    return [*cases[:count], *(pytest.param(*c, marks=pytest.mark.slow) for c in cases[count:])]


DTYPES = ("float32", "float16", "bfloat16")
REDUCTIONS = [
    *(((1, 100), 1, "sum", "bfloat16"), ((1, 16), 1, "max", "float16")),
    *(((17, 8), 0, "min", "float16"), ((5, 33), 1, "sum", "float32")),
    *((s, a, kind, d) for s in INNER for a in (0, 1) for kind in REDUCE for d in DTYPES),
]
PRODUCTS = [(3, 1, 20), (1, 5, 8), (1, 1, 16), (1, 1, 1), (1, 40, 64)]
CONSTANTS = [("bfloat16", np.nan), ("bfloat16", -np.inf), ("float16", np.inf)]
CONSTANTS += [(d, v) for d in (*DTYPES, "float64") for v in (np.inf, -np.inf, np.nan)]


@needs_nvrtc
@pytest.mark.parametrize(("shape", "axis", "kind", "dtype"), quick(REDUCTIONS, 4), ids=str)
def test_reductions(shape, axis, kind, dtype, emulator):
    a = whole_numbers(shape, dtype)
    func = scheduled(reduction(kind, shape, axis, dtype), emulator.target)["main"]
    got = executed(emulator, func, [a], (shape[1 - axis],), dtype)
    assert np.array_equal(got, EXACT[kind](a.astype("f4"), axis=axis))


@needs_nvrtc
@pytest.mark.parametrize(("rows", "columns", "reduced"), quick(PRODUCTS, 3), ids=str)
def test_products_of_one_token(rows, columns, reduced, emulator):
    a, b = (whole_numbers((2, n, reduced), "float32") for n in (rows, columns))
    func = scheduled(product(rows, columns, reduced, "float32"), emulator.target)["main"]
    got = executed(emulator, func, [a, b], (2, rows, columns))
    assert np.array_equal(got, np.einsum("nik,njk->nij", a, b))


def test_a_rule_that_fails_does_not_take_the_function(emulator):
    class Asserting:
        def apply(self, func, target, tunable):
            raise AssertionError

    func = reduction("sum", (4, 4), 1, "float32")
    assert StockRule(Asserting()).apply(func, emulator.target, tunable=False) is None


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "value"), quick(CONSTANTS, 3), ids=str)
def test_constants_that_are_no_numbers(dtype, value, emulator):
    a = te.placeholder((64,), dtype, "A")
    zero, constant = tirx.const(0, dtype), tirx.const(value, dtype)
    b = te.compute((64,), lambda i: tirx.Select(a[i] > zero, a[i], constant), "B")
    func = scheduled(te.create_prim_func([a, b]), emulator.target)["main"]
    x = typed(np.arange(-3, 61), dtype)
    got = executed(emulator, func, [x], (64,), dtype)
    assert np.array_equal(got, np.where(x > 0, x.astype("f4"), np.float32(value)), True)
