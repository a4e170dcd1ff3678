"""Which format is offered for which zeros, and what the model says about it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, integers
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.block import block_candidates


def blocks(shape, rows, cols, sparsity=0.75):
    rng = np.random.default_rng(0)
    kept = rng.random((shape[0] // rows, shape[1] // cols)) >= sparsity
    return integers(rng, shape) * kept.repeat(rows, 0).repeat(cols, 1)


@pytest.mark.parametrize(
    ("size", "group", "run"),
    [
        ((16, 16), 16, 16),
        ((32, 8), 16, 8),
        ((128, 4), 16, 4),
        ((16, 1), 8, 1),
        ((4, 4), 4, 4),
        ((8, 1), 8, 1),
        ((8, 8), 8, 4),
        ((4, 64), 4, 8),
    ],
)
def test_blocks_are_found(size, group, run):
    contraction = Contraction((128,), 512, 512)
    matrix = blocks((512, 512), *size)
    (candidate,) = block_candidates(contraction, Scan(matrix), host())
    assert candidate.name == "block"
    assert (candidate.format.group, candidate.format.run) == (group, run)
    assert candidate.work == np.count_nonzero(matrix) / matrix.size
    assert candidate.cost < 0.6


def test_blocks_of_convolutions_lie_within_one_tap():
    window = ((1, 4, 4), 24, 32, (3, 3), (1, 1), (1, 1), (6, 6))
    contraction = Contraction(*window)
    matrix = blocks(contraction.matrix_shape, 16, 24)
    (candidate,) = block_candidates(contraction, Scan(matrix), host())
    assert contraction.columns % candidate.format.run == 0


def test_few_columns_leave_only_lanes_along_rows():
    contraction = Contraction((64,), 8, 32)
    (candidate,) = block_candidates(contraction, Scan(blocks((32, 8), 4, 4)), host())
    assert candidate.format.group % 16 == 0


def test_a_single_row_of_input_does_not_run_along_the_batch():
    contraction = Contraction((1,), 512, 512)
    (candidate,) = block_candidates(contraction, Scan(blocks((512, 512), 8, 8)), host())
    assert candidate.format.inner.group % 16 == 0


def test_others_are_left_alone():
    matrix = blocks((32, 32), 16, 16)
    depthwise = Contraction((1, 4, 4), 32, 32, (3, 3), (1, 1), (1, 1), (6, 6), depthwise=True)
    assert not list(block_candidates(depthwise, Scan(matrix[:, :9]), host()))
