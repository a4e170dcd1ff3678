"""Block sparsity: projection of whole blocks, detection of any extents."""

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.grid import best_grids
from tvm_sparse.patterns.scan import Scan


def pruned(rows, cols, shape, sparsity=0.7, seed=0):
    scores = np.random.default_rng(seed).random(shape) + 0.1
    return scores * Block(rows, cols).project(scores, sparsity)


def test_project_keeps_the_blocks_with_the_largest_sums():
    scores = np.kron(np.array([[1.0, 2], [4, 3]]), np.ones((2, 3)))
    mask = Block(2, 3).project(scores, 0.5)
    np.testing.assert_array_equal(mask, scores >= 3)


def test_edges_stay():
    mask = Block(4, 4).project(np.ones((10, 11)), 1.0)
    assert not mask[:8, :8].any()
    assert mask[8:].all()
    assert mask[:, 8:].all()


def test_small_types_do_not_overflow():
    scores = np.full((64, 128), 60000, np.float16)
    scores[:, 64:] = 50000
    assert Block(64, 64).project(scores, 0.5)[:, :64].all()


def test_wrong_parameters_are_refused():
    with pytest.raises(InputError, match="0 x 4"):
        Block(0, 4)
    with pytest.raises(InputError, match="no sparsity"):
        Block(4, 4).project(np.ones((4, 4)))


@pytest.mark.parametrize(
    ("rows", "cols", "shape"),
    [
        (16, 16, (256, 512)),
        (4, 4, (64, 64)),
        (32, 1, (256, 100)),
        (1, 8, (64, 256)),
        (1, 9, (64, 576)),
        (2, 2, (64, 64)),
        (12, 25, (500, 1003)),
        (3, 7, (100, 100)),
        (8, 300, (256, 300)),
        (64, 9, (64, 576)),
        (64, 64, (1024, 1024)),
        (1, 1024, (4096, 1024)),
    ],
)
def test_the_largest_exact_block_is_found(rows, cols, shape):
    weight = pruned(rows, cols, shape)
    fit = Block.detect(weight)
    assert fit.pattern == Block(rows, cols)
    assert (fit.evidence.exact, fit.evidence.padding) == (True, 0)
    assert fit.evidence.chance < 1e-9
    assert fit.evidence.total == -(-shape[0] // rows) * -(-shape[1] // cols)


def test_stray_weights_are_a_near_miss():
    weight = pruned(16, 16, (512, 1024), 0.8)
    empty = np.argwhere(~weight.reshape(32, 16, 64, 16).any(axis=(1, 3)))
    for row, col in empty[[5, 9, 200]]:
        weight[16 * row, 16 * col] = 1
    fit = Block.detect(weight)
    assert fit.pattern == Block(16, 16)
    row, col = empty[5]
    assert fit.summary() == (
        f"block 16x16 but for 3 of 2,048 blocks; first at block row {row}, block column {col};"
        " padding costs 0.72 %"
    )


def test_kept_blocks_may_hold_zeros():
    weight = np.round(pruned(8, 8, (256, 256)) * 10).astype(np.int8)
    weight[weight == 2] = 0
    fit = Block.detect(weight)
    assert fit.pattern == Block(8, 8)
    assert fit.evidence.exact
    assert fit.evidence.padding > 0.05


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("shape", [(64, 64), (33, 77), (256, 576), (1, 400)])
def test_random_masks_are_no_blocks(sparsity, shape):
    assert Block.detect(np.random.default_rng(2).random(shape) > sparsity) is None


def test_sparse_rows_and_columns_are_no_blocks():
    rng = np.random.default_rng(3)
    density = np.outer(rng.random(256) ** 2, rng.random(300) ** 2)
    assert Block.detect(rng.random((256, 300)) < density) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_or_nothing_is_no_block(value):
    scan = Scan(np.full((8, 8), value))
    assert (scan.once(best_grids), Block.find(scan)) == ([], [])
