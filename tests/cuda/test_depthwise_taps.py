"""Depthwise kernels with pruned taps against the naive reference, and their code."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.cuda.kernels import assert_lean, executed, needs_nvrtc, scheduled, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.depthwise_taps import Plane, choose_plane, depthwise_taps
from tvm_sparse.schedules.cuda.depthwise_taps import DepthwiseTapsLaneRule

SAME = Contraction(
    (2, 14, 14), 48, 48, (3, 3), (1, 1), (1, 1), padded=(14, 14), borders=(1, 1), depthwise=True
)
STRIDED = Contraction(
    (1, 7, 7), 36, 36, (5, 5), (2, 2), (1, 1), padded=(14, 14), borders=(2, 2), depthwise=True
)
DILATED = Contraction((1, 7, 6), 33, 33, (3, 3), (1, 1), (2, 2), padded=(11, 10), depthwise=True)


def format(matrix, lanes=32):
    return DepthwiseTapsFormat.of(matrix, lanes=lanes, shared=False, limit=1)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("c", "tile", "sparsity"),
    [
        (SAME, Plane(4, 8, 64), 0.7),
        (STRIDED, Plane(7, 7, 32), 0.7),
        (DILATED, Plane(2, 3, 32), 0.7),
        (DILATED, Plane(7, 6, 32), 1.0),
    ],
)
def test_equals_the_reference(c, tile, sparsity, dtype, emulator):
    c = dataclasses.replace(c, numerics=Numerics.uniform(dtype))
    rng = np.random.default_rng(0)
    matrix, x = integers(rng, c.matrix_shape, sparsity), integers(rng, c.input_shape)
    s = format(matrix, tile.lanes)
    func = scheduled(depthwise_taps(c, s, tile), DepthwiseTapsLaneRule())
    arrays = s.encode(typed(matrix, dtype)).values()
    out = executed(emulator, func, [typed(x, dtype), *arrays], c.output_shape, dtype)
    assert np.array_equal(out, reference(c, x, matrix))


@needs_nvrtc
@pytest.mark.parametrize("c", [SAME, STRIDED], ids=["same", "strided"])
def test_many_threads_fit_an_sm(c):
    c = dataclasses.replace(c, numerics=Numerics.uniform("float16"))
    matrix = integers(np.random.default_rng(0), c.matrix_shape, 0.7)
    func = depthwise_taps(c, format(matrix), choose_plane(c, 32))
    assert_lean(scheduled(func, DepthwiseTapsLaneRule()), "sm_90", registers=96)


@pytest.mark.parametrize(("plane", "size"), [(112, 8), (56, 8), (28, 7), (14, 7), (7, 7), (5, 5)])
def test_tiles_divide_the_planes_of_networks(plane, size):
    c = dataclasses.replace(SAME, lead=(1, plane, plane))
    assert choose_plane(c, 32) == Plane(size, size, 32)
