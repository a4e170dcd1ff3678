"""Operators on half-precision weights: as exact as on fp32 ones, and offered only when exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import host, integers, run
from tests.ops.shapes import WINDOWS, window
from tvm_sparse.base.numerics import HALVES
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.narrow import NarrowFormat
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.balanced import balanced_candidates
from tvm_sparse.selection.cpu.block import block_candidates
from tvm_sparse.selection.cpu.joint import joint_candidates
from tvm_sparse.selection.narrow import narrowest

OFFERS = [balanced_candidates, block_candidates, joint_candidates]


def masked(contraction, scale=1.0):
    rng = np.random.default_rng(0)
    kept = rng.random((-(-contraction.features // 16), contraction.matrix_shape[1] // 16)) < 0.5
    kept = kept.repeat(16, 0).repeat(16, 1)[: contraction.features]
    return integers(rng, contraction.matrix_shape, 0.5) * kept * np.float32(scale)


@pytest.mark.grid
@pytest.mark.parametrize("cpu", ["", "haswell", "x86-64"])
@pytest.mark.parametrize("scale", [1.0, 257 / 256], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: offer.__name__)
def test_offered_and_exact(offer, scale, cpu):
    # 257 * k takes 9 to 11 bits: too many for bfloat16, few enough for float16.
    contraction = Contraction((3,), 64, 40)
    matrix = masked(contraction, scale)
    (candidate,) = offer(contraction, Scan(matrix), host(cpu))
    assert isinstance(candidate.format, NarrowFormat)
    assert candidate.format.stored == ("bfloat16" if scale == 1 else "float16")
    x = integers(np.random.default_rng(1), contraction.input_shape)
    operands = [x, *candidate.format.encode(matrix).values()]
    got = run(candidate.func, operands, contraction.output_shape, host(cpu))
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.parametrize("stored", HALVES)
def test_convolution(stored):
    contraction = window(WINDOWS[0], 16, 24)
    matrix = masked(contraction)
    inner = CompressedRowsFormat.of(
        matrix, group=16, run=4, tile_rows=16, tile_cols=matrix.shape[1]
    )
    x = integers(np.random.default_rng(1), contraction.input_shape)
    operands = [x, *NarrowFormat(inner, stored).encode(matrix).values()]
    narrow = replace(contraction, numerics=contraction.numerics.with_weights(stored))
    got = run(block(narrow, inner, host()), operands, contraction.output_shape)
    assert (got == reference(contraction, x, matrix)).all()


def test_only_where_nothing_is_lost_and_rows_are_few():
    few, many = Contraction((8,), 32, 32), Contraction((9,), 32, 32)
    matrix = masked(few)
    assert narrowest(few, Scan(matrix), host()).numerics.weight == "bfloat16"
    assert narrowest(many, Scan(matrix), host()) == many
    assert narrowest(few, Scan(matrix / 3), host()) == few
