"""Banks that blocks were cut out of, and the cheapest way to store both masks."""

import numpy as np
import pytest

from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.banks import balanced_cost, stored_values
from tvm_sparse.patterns.block import Block, block_cost
from tvm_sparse.patterns.grid import Grid
from tvm_sparse.patterns.mixture import HiddenBank, hidden_bank, joint_cost
from tvm_sparse.patterns.scan import Scan


def cut(bank, keep, rows, cols, shape, coarse, same=False):
    """Return a balanced mask AND a block mask, of independent or of the same scores."""
    rng = np.random.default_rng(0)
    fine = rng.random(shape)
    blocks = Block(rows, cols).project(fine if same else rng.random(shape), coarse)
    mask = Balanced(bank, keep).project(fine) & blocks
    scan = Scan(mask)
    number = -(-shape[0] // rows) * -(-shape[1] // cols)
    return scan, Grid(rows, cols, number, *scan.block_totals(rows, cols), log=-100.0)


@pytest.mark.parametrize(
    ("bank", "keep", "block", "coarse"),
    [(512, 100, (4, 4), 0.3), (512, 256, (4, 4), 0.6), (250, 100, (1, 8), 0.4)],
)
def test_hidden_banks_of_independent_masks(bank, keep, block, coarse):
    found = hidden_bank(*cut(bank, keep, *block, (512, 2048), coarse))
    assert (found.columns, found.keep) == (bank, pytest.approx(keep, abs=1))
    assert found.log < np.log(1e-4)


def test_hidden_banks_of_masks_by_the_same_scores():
    scan, grid = cut(512, 160, 4, 4, (1024, 2048), 0.15, same=True)
    found = hidden_bank(scan, grid)
    density = scan.nonzeros / grid.inside
    assert found.columns == 512
    assert abs(found.keep - 160) < abs(found.keep - 512 * density)


def test_hidden_banks_that_all_show_as_much():
    fine = Balanced(512, 400).project(np.random.default_rng(0).random((512, 2048)))
    checks = np.kron(np.indices((128, 512)).sum(0) % 2, np.ones((4, 4), int))
    scan = Scan(fine & (checks == 1))
    grid = Grid(4, 4, 128 * 512, *scan.block_totals(4, 4), log=-100.0)
    found = hidden_bank(scan, grid)
    assert (found.columns, found.keep) == (512, 400)


def test_nothing_hidden_in_random_blocks():
    rng = np.random.default_rng(0)
    mask = Block(4, 4).project(rng.random((512, 1024)), 0.5) & (rng.random((512, 1024)) < 0.3)
    scan = Scan(mask)
    grid = Grid(4, 4, 128 * 256, *scan.block_totals(4, 4), log=-100.0)
    assert hidden_bank(scan, grid) is None


@pytest.mark.parametrize(("shape", "block"), [((64, 12), (2, 2)), ((64, 64), (2, 64))])
def test_no_room_for_banks_of_several_blocks(shape, block):
    assert hidden_bank(*cut(4, 2, *block, shape, 0.5)) is None


def test_counts_too_small_for_the_test_are_left_alone():
    assert hidden_bank(*cut(32, 1, 2, 2, (64, 96), 0.3)) is None


def test_costs():
    scan, grid = cut(16, 4, 16, 16, (256, 512), 0.5)
    inner = joint_cost(scan, grid, HiddenBank(16, 4, -100.0))
    assert inner.flops == 2 * grid.inside * 4 // 16
    dense, grid = cut(16, 15, 16, 16, (256, 512), 0.5)
    assert joint_cost(dense, grid, HiddenBank(16, 15, -100.0)) == block_cost(dense, grid)
    plain, grid = cut(16, 4, 2, 2, (256, 512), 0.03)
    values = stored_values(256, 512, 16, 4)
    assert joint_cost(plain, grid, HiddenBank(16, 4, -100.0)) == balanced_cost(plain, 16, values)
    rows, grid = cut(512, 100, 4, 4, (512, 2048), 0.6)
    cost = joint_cost(rows, grid, HiddenBank(512, 100, -100.0))
    assert cost.flops == 8 * rows.row_count.reshape(-1, 4).max(1).sum()
