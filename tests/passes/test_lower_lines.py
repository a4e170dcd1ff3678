"""LowerLines: sorts, scans, gathers and scatters have NumPy's values and stay inside tensors."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.lower.lower_lines import LowerLines

X = np.random.default_rng(0).standard_normal((3, 5, 4)).astype(np.float32)


def _run(body, *inputs: np.ndarray) -> np.ndarray:
    """Return the value of ``body`` after the pass, which leaves none of its operators."""
    lowered = LowerLines()(module(body, *(x.shape for x in inputs)))
    assert set(operators(lowered)) == {"call_tir"}
    return evaluate(lowered, *inputs)


@pytest.mark.grid
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sorts(axis):
    found = _run(lambda x: relax.op.sort(x, axis), X)
    np.testing.assert_array_equal(found, np.sort(X, axis))
    found = _run(lambda x: relax.op.argsort(x, axis, True, "int64"), X)
    np.testing.assert_array_equal(found, np.argsort(-X, axis, kind="stable"))
    found = _run(lambda x: relax.op.topk(x, 2, axis, "values"), X)
    np.testing.assert_array_equal(found, np.flip(np.sort(X, axis), axis).take([0, 1], axis))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_scans(axis):
    np.testing.assert_allclose(
        _run(lambda x: relax.op.cumsum(x, axis), X), np.cumsum(X, axis), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        _run(lambda x: relax.op.cumprod(x, axis), X), np.cumprod(X, axis), rtol=1e-5, atol=1e-6
    )


def test_sums_do_not_lose_small_terms():
    """One after the other in float32, the sum would stand still at 2 ** 24."""
    x = np.full((1, 1000), 1, np.float32)
    x[0, 0] = 2**24
    assert _run(lambda x: relax.op.cumsum(x, 1), x)[0, -1] == 2**24 + 1000


def test_an_exclusive_sum_begins_with_nothing():
    x = np.arange(1, 5, dtype=np.float32)
    found = _run(lambda x: relax.op.cumsum(x, 0, exclusive=True), x)
    np.testing.assert_array_equal(found, [0, 1, 3, 6])


def _indexed(body, indices: np.ndarray, *inputs: np.ndarray) -> np.ndarray:
    where = relax.const(indices)
    return _run(lambda *xs: body(where, *xs), *inputs)


def test_gathers_never_leave_the_tensor():
    indices = np.array([[0, -1, 3, 99, -99]] * 2, np.int64)
    x = X[0, :2, :4]
    found = _indexed(lambda i, x: relax.op.gather_elements(x, i, 1), indices, x)
    np.testing.assert_array_equal(found[:, :3], x[:, [0, -1, 3]])
    assert np.isnan(found[:, 3:]).all()


@pytest.mark.parametrize("reduction", ["update", "add", "mul", "min", "max"])
def test_scatters_combine_in_order_and_drop_wild_indices(reduction):
    x = X[0]
    updates = np.array([[1, np.nan, 3, 4], [5, 6, 7, 8], [9, 8, 7, 6]], np.float32)
    indices = np.array([[0, 1, -1, 99], [0, 2, -99, 3], [4, 1, 0, 3]], np.int64)
    combine = {
        "update": lambda old, new: new,
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }[reduction]
    expected = x.copy()
    for (row, column), index in np.ndenumerate(indices):
        if -5 <= index < 5:
            expected[index, column] = combine(expected[index, column], updates[row, column])

    def body(i, x, u):
        return relax.op.scatter_elements(x, i, u, 0, reduction)

    np.testing.assert_allclose(_indexed(body, indices, x, updates), expected, rtol=1e-6)


def test_other_operators_are_left_alone():
    before = module(relax.op.exp, (3, 4))
    tvm.ir.assert_structural_equal(LowerLines()(before), before)


@pytest.mark.parametrize("axis", [2, -1])
def test_columns_at_known_places(axis):
    places = np.array([0, 0, 1, 1, 3, 2])
    found = _run(lambda x: relax.op.take(x, relax.const(places), axis), X)
    np.testing.assert_array_equal(found, X[..., places])


@pytest.mark.parametrize(
    ("places", "axis"), [([0, 1], 1), ([0, 4], 2), ([-1, 0], 2), (range(0, 64, 4), 0)]
)
def test_other_places_are_taken_as_before(places, axis):
    """Other axes, places outside, whose value the mode says, and distant ones."""
    x = np.arange(64, dtype=np.float32) if axis == 0 else X
    body = module(lambda x: relax.op.take(x, relax.const(np.array(places)), axis), x.shape)
    assert set(operators(LowerLines()(body))) == {"take"}
