"""Reductions to extrema: what they are of, and that schedules may split them."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te

from tests.kernels import run
from tvm_sparse.ops.tensors.extrema import MAX, MIN, position, reduce


def values(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, (3, 64)).astype(dtype)
    if dtype == "float32":
        x[1] = -np.inf
        x[2, 5] = x[2, 40] = np.nan
    return x


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize(
    ("extremum", "reference", "place"),
    [(MAX, np.max, np.argmax), (MIN, np.min, np.argmin)],
    ids=["max", "min"],
)
def test_values_and_first_positions(extremum, reference, place, dtype):
    data = te.placeholder((3, 64), dtype, "X")
    x = values(dtype)
    func = te.create_prim_func([data, reduce(extremum, data, [1], False)])
    np.testing.assert_array_equal(run(func, [x], (3,), dtype=dtype), reference(x, axis=1))
    func = te.create_prim_func([data, position(extremum, data, 1, False, "int64")])
    np.testing.assert_array_equal(run(func, [x], (3,), dtype="int64"), place(x, axis=1))


@pytest.mark.parametrize("extremum", [MAX, MIN], ids=["max", "min"])
def test_a_reduction_can_be_split_into_partial_results(extremum):
    data = te.placeholder((3, 64), "float32", "X")
    sch = s_tir.Schedule(te.create_prim_func([data, reduce(extremum, data, [1], False)]))
    _, reduced = sch.get_loops(sch.get_sblock("reduce"))
    _, lane = sch.split(reduced, [None, 16])
    sch.rfactor(lane, factor_axis=1)
    assert len(sch.get_child_blocks(sch.get_sblock("root"))) == 2
