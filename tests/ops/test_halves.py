"""Rounding to bfloat16 is ml_dtypes's, bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tvm import te

from tests.kernels import run
from tvm_sparse.ops.bytes.halves import rounded


def test_every_upper_half_with_every_sort_of_lower_half():
    lows = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits = (np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | lows
    x = bits.view(np.float32)
    placeholder = te.placeholder(x.shape, "float32", "X")
    func = te.create_prim_func([placeholder, rounded(placeholder)])
    got = run(func, [x], x.shape, dtype="bfloat16")
    with np.errstate(invalid="ignore", over="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(got.view("u2")[numbers], expected.view("u2")[numbers])
    assert np.isnan(got[~numbers].astype(np.float32)).all()
