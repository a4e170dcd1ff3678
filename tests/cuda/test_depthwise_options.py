"""How depthwise layers are stored on GPUs, and the papers' sub-GEMMs executed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.cuda.kernels import executed, needs_nvrtc, scheduled, target
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.block_weights import BlockOperand
from tvm_sparse.ops.cuda.depthwise import Strip
from tvm_sparse.ops.cuda.multiply import Scalar
from tvm_sparse.ops.cuda.tile import tiled
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda.tile_scalar import TileScalarRule
from tvm_sparse.selection.cuda import depthwise_options as ways

LAYER = Contraction(
    (2, 7, 7), 48, 48, (3, 3), (2, 2), (1, 1), padded=(14, 14), borders=(1, 1), depthwise=True
)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("sparsity", [0.0, 0.7])
def test_sub_gemms_equal_the_reference(sparsity, emulator):
    rng = np.random.default_rng(0)
    matrix, x = integers(rng, LAYER.matrix_shape, sparsity), integers(rng, LAYER.input_shape)
    full, format, tile = ways.sub_gemms(LAYER, matrix, target())
    func = tiled(full, BlockOperand(format, tile), tile, Scalar())
    arrays = format.encode(ways.diagonal(matrix)).values()
    func = scheduled(func, TileScalarRule())
    out = executed(emulator, func, [x, *arrays], LAYER.output_shape)
    assert np.array_equal(out, reference(LAYER, x, matrix))


def test_pruned_taps_leave_the_sub_gemms():
    matrix = np.ones(LAYER.matrix_shape, np.float32)
    assert ways.rearranged(LAYER, matrix, target()).format.buckets.parts[0].slots == 32 * 9
    matrix[:, 2:] = 0
    pruned = ways.rearranged(LAYER, matrix, target())
    assert pruned.format.buckets.parts[0].slots == 32 * 2
    assert pruned.work == 32 * 2 / 9


def test_large_windows_get_small_strips():
    five = dataclasses.replace(LAYER, taps=(5, 5), strides=(1, 1), lead=(2, 14, 14))
    assert ways.choose_strip(dataclasses.replace(LAYER, strides=(1, 1))) == Strip(2, 4)
    assert ways.choose_strip(five) == Strip(1, 2)
    assert ways.choose_strip(
        dataclasses.replace(LAYER, numerics=Numerics.uniform("float16"))
    ) == Strip(1, 2)


def test_few_taps_are_faster_where_products_decide():
    c = Contraction(
        (32, 14, 14),
        672,
        672,
        (5, 5),
        (1, 1),
        (1, 1),
        padded=(14, 14),
        numerics=Numerics.uniform("float16"),
        borders=(2, 2),
        depthwise=True,
    )
    matrix = np.zeros(c.matrix_shape, np.float16)
    matrix[:, :4] = 1
    (taps,) = ways.sparse(c, Scan(matrix), target())
    assert taps.seconds < ways.dense(c, target()).seconds
    full = np.ones_like(matrix)
    (unpruned,) = ways.sparse(c, Scan(full), target())
    assert unpruned.seconds > ways.dense(c, target()).seconds
