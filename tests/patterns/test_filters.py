"""Filter pruning: rows and inputs that are zero, the rest dense."""

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.filters import FilterPruned


def weight(shape=(64, 576)):
    return np.random.default_rng(0).random(shape) + 0.1


def test_project_keeps_the_largest_rows():
    scores = np.diag([3.0, 1, 2])
    assert FilterPruned().project(scores, 1 / 3).any(1).tolist() == [True, False, True]
    assert FilterPruned(outputs=1).project(scores).all(1).tolist() == [True, False, False]
    with pytest.raises(InputError, match="no sparsity"):
        FilterPruned().project(scores)


def test_rows_and_inputs_are_found():
    pruned = weight()
    pruned[10:30] = 0
    pruned.reshape(64, 64, 9)[:, :40] = 0
    from tvm_sparse.patterns.scan import Scan

    (fit,) = FilterPruned.find(Scan(pruned, taps=9))
    assert fit.pattern == FilterPruned(44, 24, 9)
    assert (fit.evidence.exact, fit.evidence.padding) == (True, 0)
    assert fit.cost.relative == pytest.approx(44 * 24 / 64 / 64)
    assert fit.pattern.describe() == "filters removed, 44 outputs and 24 inputs left"


def test_a_near_miss_names_the_first_sparse_row():
    pruned = weight()
    pruned[10:30] = 0
    pruned[5, 200:] = 0
    fit = FilterPruned.detect(pruned)
    assert not fit.evidence.exact
    assert fit.summary().startswith(
        "filters removed, 44 outputs and 576 inputs left but for 1 of 64 rows; first at row 5;"
    )


def test_what_is_left_must_be_dense():
    pruned = weight() * (np.random.default_rng(1).random((64, 576)) < 0.3)
    pruned[10:30] = 0
    assert FilterPruned.detect(pruned) is None


def test_chance_is_not_claimed():
    sparse = np.random.default_rng(0).random((40, 3)) < 0.4
    assert not sparse.any(1).all()
    assert FilterPruned.detect(sparse) is None
    assert FilterPruned.detect(weight()) is None


def test_nothing_left():
    fit = FilterPruned.detect(np.zeros((3, 4)))
    assert fit.pattern == FilterPruned(0, 0)
    assert (fit.cost.relative, fit.evidence.padding) == (0, 0)


def test_description_without_numbers():
    assert FilterPruned().describe() == "filters removed"
    assert FilterPruned(inputs=3).describe() == "filters removed, 3 inputs left"
