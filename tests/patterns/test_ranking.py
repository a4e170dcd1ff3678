"""Ranking is exact, also with ties, padding and every element type."""

import ml_dtypes
import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count


def test_ties_go_to_the_left():
    scores = np.array([[2.0, 1, 2, 1, 2]])
    assert keep_largest(scores, 4).tolist() == [[True, True, True, False, True]]
    assert keep_largest(scores, 2).tolist() == [[True, False, True, False, False]]


def test_padding_is_never_kept():
    scores = np.array([[1.0, -np.inf, 0, -np.inf]])
    for keep in (3, 4, 9):
        assert keep_largest(scores, keep).tolist() == [[True, False, True, False]]
    assert not keep_largest(scores, 0).any()


def test_long_rows_do_not_overflow_the_counter():
    assert keep_largest(np.zeros(70000), 66000).sum() == 66000


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.int32, bool])
def test_other_types_rank_alike(dtype):
    scores = checked_scores(np.array([[0, 1, 0, 1]]).astype(dtype), "layer")
    assert keep_largest(scores, 2).tolist() == [[False, True, False, True]]


def test_no_scores_are_fine():
    assert checked_scores(np.zeros((0, 4)), "layer").shape == (0, 4)


@pytest.mark.parametrize("sparsity", [-0.1, 1.1, np.nan])
def test_sparsity_is_a_fraction(sparsity):
    with pytest.raises(InputError, match="0 to 1"):
        kept_count(10, sparsity, "layer")


def test_counts_are_rounded_to_nearest():
    assert [kept_count(16, s, "layer") for s in (0.0, 0.9, 0.95, 1.0)] == [16, 2, 1, 0]
