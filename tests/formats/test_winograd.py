"""Winograd's format of 3x3 kernels: what each value is, exact where fp32 holds it."""

from __future__ import annotations

import numpy as np

from tests.kernels import integers
from tvm_sparse.formats.winograd import KERNEL, WinogradFormat


def test_values_are_transformed_kernels():
    matrix = integers(np.random.default_rng(0), (32, 9 * 5))
    format = WinogradFormat(32, 5)
    values = format.encode(matrix)["values"]
    assert values.shape == format.shape == (2, 4, 4, 5, 16)
    assert values.nbytes == format.nbytes()
    kernels = matrix.reshape(32, 3, 3, 5)
    for feature, column in ((0, 0), (19, 3), (31, 4)):
        expected = KERNEL @ kernels[feature, :, :, column] @ KERNEL.T
        assert (values[feature // 16, :, :, column, feature % 16] == expected).all()


def test_values_are_rounded_once():
    matrix = np.random.default_rng(0).standard_normal((16, 9), dtype=np.float32)
    values = WinogradFormat(16, 1).encode(matrix)["values"][0, :, :, 0]
    exact = np.einsum("ai,fij,bj->abf", KERNEL, matrix.reshape(16, 3, 3).astype(float), KERNEL)
    assert (values == exact.astype(np.float32)).all()
