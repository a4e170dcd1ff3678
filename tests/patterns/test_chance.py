"""The bounds on chance really bound it, and are close where exact values exist."""

import math

import numpy as np
import pytest
from scipy import stats

from tvm_sparse.patterns import chance


@pytest.mark.parametrize(("cells", "nonzeros", "bank"), [(100, 30, 16), (64, 60, 8), (50, 3, 25)])
def test_exceeding_is_the_hypergeometric_tail(cells, nonzeros, bank):
    for keep in range(bank + 1):
        expected = stats.hypergeom(cells, nonzeros, bank).sf(keep)
        assert chance.exceeding(cells, nonzeros, bank, keep) == pytest.approx(expected, abs=1e-12)


def test_exceeding_of_a_large_layer():
    cells, nonzeros = 11008 * 4096, 11008 * 1024
    expected = stats.binom(1024, 0.25).sf(256)
    assert chance.exceeding(cells, nonzeros, 1024, 256) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("trials", "hits", "p"), [(50, 0, 0.1), (200, 5, 0.1), (10, 9, 0.95)])
def test_at_most_bounds_the_binomial(trials, hits, p):
    exact = stats.binom(trials, p).logcdf(hits)
    bound = chance.log_at_most(trials, hits, p)
    assert exact <= bound <= 0
    if hits == 0:
        assert bound == pytest.approx(exact)


def test_at_most_says_nothing_about_the_expected():
    assert chance.log_at_most(100, 10, 0.1) == 0
    assert chance.log_at_most(0, 0, 0.0) == 0
    assert chance.log_at_most(4, 0, 1.0) == -math.inf


def test_block_gain_bounds_what_random_masks_show():
    rng = np.random.default_rng(0)
    empties = []
    for _ in range(2000):
        flat = np.zeros(256, bool)
        flat[rng.permutation(256)[:40]] = True
        empties.append(64 - flat.reshape(64, 4).any(1).sum())
    for least in (25, 30, 33):
        seen = np.mean(np.array(empties) >= least)
        occupied = 64 - least
        log = chance.log_block_gain(256, 40, 64, occupied, 4 * occupied)
        assert seen <= 64 * math.exp(log)


def test_block_gain_of_a_block_mask():
    log = chance.log_block_gain(4096, 1024, 16, 4, 1024)
    assert log == pytest.approx(chance.log_choose(16, 4) - chance.log_choose(4096, 1024))
    assert chance.log_block_gain(4096, 4000, 16, 16, 4096) == 0


@pytest.mark.parametrize("ratio", [0.3, 0.7, 0.95])
def test_dispersion_bounds_chi_square(ratio):
    exact = stats.chi2(200).logcdf(200 * ratio)
    assert exact <= chance.log_dispersion(200, ratio) < 0


def test_dispersion_at_the_ends():
    assert chance.log_dispersion(10, 1.0) == 0
    assert chance.log_dispersion(10, 0.0) == -math.inf


def test_choose_and_probability():
    assert math.exp(chance.log_choose(10, 3)) == pytest.approx(120)
    assert chance.log_choose(3, 4) == -math.inf
    assert chance.probability(-math.inf) == pytest.approx(chance.SMALLEST, rel=1e-9)
    assert chance.probability(1.0) == 1.0
