"""Depthwise strips against a naive sum, executed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.cuda.kernels import executed, needs_nvrtc, scheduled, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.dense import DenseTapFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.depthwise import Strip, depthwise
from tvm_sparse.schedules.cuda.depthwise import DepthwiseStripRule

SAME = Contraction(
    (2, 14, 14), 48, 48, (3, 3), (1, 1), (1, 1), padded=(14, 14), borders=(1, 1), depthwise=True
)
STRIDED = Contraction(
    (1, 7, 7), 24, 24, (5, 5), (2, 2), (1, 1), padded=(14, 14), borders=(2, 2), depthwise=True
)
DILATED = Contraction((1, 7, 6), 12, 12, (3, 3), (1, 1), (2, 2), padded=(11, 10), depthwise=True)


def naive(c, x, matrix):
    """The sum over taps, each a shifted view of the input with wide borders of zeros."""
    before = c.borders or (0, 0)
    wide = np.zeros((x.shape[0], x.shape[1] + 20, x.shape[2] + 20, x.shape[3]))
    wide[:, before[0] :, before[1] :][:, : x.shape[1], : x.shape[2]] = x
    out = np.zeros(c.output_shape)
    for i, (y, z) in enumerate(np.ndindex(*c.taps)):
        rows = y * c.dilation[0] + np.arange(c.lead[1]) * c.strides[0]
        columns = z * c.dilation[1] + np.arange(c.lead[2]) * c.strides[1]
        out += wide[:, rows][:, :, columns] * matrix[:, i]
    return out


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("c", [SAME, STRIDED, DILATED], ids=["same", "strided", "dilated"])
@pytest.mark.parametrize("strip", [Strip(2, 4), Strip(1, 3)])
def test_equals_the_naive_sum(c, strip, dtype, emulator):
    c = dataclasses.replace(c, numerics=Numerics.uniform(dtype))
    rng = np.random.default_rng(0)
    matrix, x = integers(rng, c.matrix_shape), integers(rng, c.input_shape)
    func = scheduled(depthwise(c, strip), DepthwiseStripRule())
    taps = DenseTapFormat(*c.matrix_shape).encode(typed(matrix, dtype))["values"]
    out = executed(emulator, func, [typed(x, dtype), taps], c.output_shape, dtype)
    assert np.array_equal(out, naive(c, x, matrix))
