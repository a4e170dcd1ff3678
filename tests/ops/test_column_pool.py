"""Means of columns of bytes: tiles side by side, or a last one that overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tests.kernels import host, run
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.tensors.axis import Lines
from tvm_sparse.ops.tensors.column_pool import column_pool
from tvm_sparse.ops.tensors.row_pool import mean
from tvm_sparse.ops.tensors.windows import Shares


@pytest.mark.grid
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize("columns", [64, 70, 96, 144, 176, 240, 480, 672, 1000, 1152])
@pytest.mark.parametrize(("before", "threads"), [(1, 1), (2, 2), (1, 2), (1, 3)])
def test_means_of_bytes(before, threads, columns, rows):
    shape, scale = (before, rows, columns), Scale("uint8", 0.25, 3)
    x = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    tensor, pooling = (
        te.placeholder(shape, "uint8", "X"),
        mean([Shares(rows, 1)], counts_borders=False),
    )
    result = column_pool(tensor, Lines(*shape), pooling, (before, columns), scale, threads=threads)
    func = te.create_prim_func([tensor, result]).with_attr("global_symbol", "main")
    got = run(func, [x], (before, columns), host())
    expected = (x.sum(1, dtype=np.int64) - 3 * rows) * 0.25 / rows
    np.testing.assert_allclose(got, expected, rtol=1e-6)
