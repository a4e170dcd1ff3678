"""Screening of bank sizes: the true one is kept, chance is not."""

import numpy as np
import pytest

from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.banks import (
    balanced_cost,
    likely_banks,
    log_equal_counts,
    stored_values,
    tolerated,
)
from tvm_sparse.patterns.chance import log_choose
from tvm_sparse.patterns.scan import Scan


def test_the_cheapest_bank_comes_first():
    scores = np.random.default_rng(0).random((128, 512))
    assert likely_banks(Scan(Balanced(16, 4).project(scores)))[0] == 16


def test_few_sizes_of_a_random_mask_are_worth_counting():
    mask = np.random.default_rng(0).random((512, 2048)) < 0.3
    assert len(likely_banks(Scan(mask))) <= 2


def test_near_misses_are_few():
    assert [tolerated(n) for n in (1, 16, 31, 32, 64, 300, 400, 65536)] == [
        *(0, 1, 1, 2, 3, 3, 4),
        655,
    ]


def test_equal_counts_are_counted_exactly():
    scan = Scan(Balanced(4, 2).project(np.random.default_rng(0).random((3, 10))))
    whole, tail = scan.bank_histogram(4)
    assert log_equal_counts(scan, 4, whole, tail) == pytest.approx(
        6 * log_choose(4, 2) + 3 * log_choose(2, 2) - log_choose(30, 18)
    )
    whole, tail = scan.bank_histogram(5)
    assert log_equal_counts(scan, 5, whole, tail) == 0


def test_stored_values_of_short_last_banks():
    assert stored_values(3, 10, 4, 2) == 3 * (2 + 2 + 2)
    assert stored_values(3, 9, 4, 2) == 3 * (2 + 2 + 1)


def test_large_banks_cost_a_load_a_value():
    scan = Scan(np.eye(64, 256))
    small, large = balanced_cost(scan, 64, 1000), balanced_cost(scan, 65, 1000)
    assert small.relative < 0.9 * large.relative
