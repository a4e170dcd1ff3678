"""Balanced: projection against a plain sort, and detection of its own masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced


def by_sorting(scores, bank, keep):
    """Keep the first `keep` of each bank in descending order of score, one bank at a time."""
    mask = np.zeros(scores.shape, bool)
    for row in range(scores.shape[0]):
        for start in range(0, scores.shape[1], bank):
            columns = range(start, min(start + bank, scores.shape[1]))
            best = sorted(columns, key=lambda c: (-scores[row, c], c))[:keep]
            mask[row, best] = True
    return mask


@given(
    st.integers(1, 5), st.integers(1, 40), st.integers(1, 17), st.integers(0, 17), st.integers(0)
)
def test_project_keeps_the_largest_of_every_bank(rows, cols, bank, keep, seed):
    # Few distinct scores make ties frequent.
    scores = np.random.default_rng(seed).integers(0, 6, (rows, cols)).astype(np.float32)
    mask = Balanced(bank, min(keep, bank)).project(scores)
    np.testing.assert_array_equal(mask, by_sorting(scores, bank, min(keep, bank)))


def test_sparsity_replaces_keep():
    scores = np.arange(32.0).reshape(1, 32)
    assert Balanced(16, 16).project(scores, 0.75).sum() == 8
    assert Balanced(25, 1).project(scores, 0.8).sum() == 5 + 5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_scores_that_cannot_be_ranked_are_refused(bad):
    scores = np.ones((2, 8))
    scores[1, 3] = bad
    with pytest.raises(InputError, match=r"\(1, 3\)"):
        Balanced(4, 2).project(scores)


def test_wrong_parameters_are_refused():
    with pytest.raises(InputError, match="keep 5 of 4"):
        Balanced(4, 5)
    with pytest.raises(InputError, match=r"sparsity 1\.5"):
        Balanced(4, 2).project(np.ones((1, 4)), 1.5)
    with pytest.raises(InputError, match="matrix"):
        Balanced(4, 2).project(np.ones(4))
