"""Candidate block extents: exact periods, likely periods, shortest code."""

import numpy as np
import pytest

from tvm_sparse.patterns.grid import best_grids, exact_period, likely_periods
from tvm_sparse.patterns.scan import Scan


def blocks(rows, cols, down, across, density, seed=0):
    kept = np.random.default_rng(seed).random((down, across)) < density
    return np.kron(kept, np.ones((rows, cols)))


def periods(scan):
    return (
        exact_period(scan.row_count, scan.row_pair),
        exact_period(scan.col_count, scan.col_pair),
    )


def test_exact_periods():
    assert periods(Scan(blocks(6, 10, 8, 9, 0.5))) == (6, 10)
    assert periods(Scan(np.eye(7))) == (1, 1)
    assert periods(Scan(np.tile(np.arange(6) % 2, (4, 1)))) == (4, 1)


@pytest.mark.parametrize("period", [3, 4, 16])
def test_likely_periods_survive_noise(period):
    mask = blocks(period, 8, 30, 40, 0.4)
    mask = mask * (np.random.default_rng(1).random(mask.shape) < 0.5)
    scan = Scan(mask)
    assert likely_periods(scan.row_count, scan.row_pair, scan.cols)[0] == period


def test_lines_of_equal_length_have_no_likely_period():
    assert likely_periods(np.full(8, 5), np.full(8, 5), 5) == []
    assert likely_periods(np.array([3]), np.array([0]), 5) == []


def test_the_true_extents_have_the_shortest_code():
    mask = blocks(8, 4, 40, 60, 0.3)
    mask = mask * (np.random.default_rng(1).random(mask.shape) < 0.6)
    best = best_grids(Scan(mask))[0]
    assert (best.rows, best.cols) == (8, 4)
    assert (best.blocks, best.inside) == (2400, 32 * best.occupied)
    assert best.log < -1000


def test_tall_blocks_of_large_matrices_are_measured_in_full():
    mask = blocks(1000, 3, 4, 700, 0.5)
    best = best_grids(Scan(mask))[0]
    assert (best.rows, best.cols) == (1000, 3)


def test_random_masks_have_none():
    assert best_grids(Scan(np.random.default_rng(0).random((300, 200)) < 0.2)) == []
