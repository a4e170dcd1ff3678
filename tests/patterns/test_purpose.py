"""Empty blocks that were pruned as blocks are told from those of sparse rows and columns."""

import numpy as np
import pytest

from tvm_sparse.patterns.grid import Grid
from tvm_sparse.patterns.purpose import beyond_margins, stands_apart
from tvm_sparse.patterns.scan import Scan


def measured(mask, rows, cols):
    scan = Scan(mask)
    blocks = -(-scan.rows // rows) * -(-scan.cols // cols)
    return scan, Grid(rows, cols, blocks, *scan.block_totals(rows, cols), log=-100.0)


def pruned_one_by_one(shape):
    rng = np.random.default_rng(0)
    return rng.random(shape) < np.outer(rng.random(shape[0]), rng.random(shape[1])) ** 2


def pruned_in_blocks(shape, rows, cols, inside):
    rng = np.random.default_rng(0)
    kept = rng.random((shape[0] // rows, shape[1] // cols)) < 0.5
    return np.kron(kept, np.ones((rows, cols))) * (rng.random(shape) < inside)


@pytest.mark.parametrize("inside", [0.3, 0.6, 1.0])
def test_blocks(inside):
    scan, grid = measured(pruned_in_blocks((128, 128), 4, 4, inside), 4, 4)
    assert stands_apart(scan, grid)
    assert beyond_margins(scan, grid)


def test_sparse_rows_and_columns():
    scan, grid = measured(pruned_one_by_one((256, 256)), 4, 4)
    assert grid.blocks > 1.2 * grid.occupied
    assert not stands_apart(scan, grid)
    assert not beyond_margins(scan, grid)


def test_zero_rows_are_what_the_margins_say():
    mask = np.random.default_rng(0).random((64, 64)) < 0.3
    mask[::2] = False
    scan, grid = measured(mask, 1, 64)
    assert stands_apart(scan, grid)
    assert not beyond_margins(scan, grid)


def test_many_empty_blocks_count_by_those_that_are_left():
    mask = pruned_in_blocks((256, 256), 4, 4, 0.05)
    scan, grid = measured(mask, 4, 4)
    assert beyond_margins(scan, grid)
