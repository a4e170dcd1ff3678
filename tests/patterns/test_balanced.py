"""Balanced: projection against a plain sort, and detection of its own masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan


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


def pruned(bank, keep, shape, seed=0, dtype=np.float32):
    scores = np.random.default_rng(seed).random(shape) + 0.1
    return (scores * Balanced(bank, keep).project(scores)).astype(dtype)


@pytest.mark.parametrize(
    ("bank", "keep", "shape"),
    [
        (4, 2, (64, 64)),
        (16, 4, (64, 256)),
        (16, 15, (256, 512)),
        (16, 1, (10, 512)),
        (25, 5, (60, 1500)),
        (25, 5, (60, 1490)),
        (7, 3, (33, 101)),
        (64, 6, (128, 640)),
        (576, 58, (64, 576)),
        (1152, 300, (64, 2304)),
    ],
)
def test_the_smallest_bank_is_found(bank, keep, shape):
    fit = Balanced.detect(pruned(bank, keep, shape))
    assert fit.pattern == Balanced(bank, keep)
    assert fit.evidence.exact
    assert fit.evidence.total == shape[0] * -(-shape[1] // bank)
    assert fit.evidence.chance < 1e-9
    assert fit.evidence.first_violation is None


def test_multiples_are_candidates():
    found = [fit.pattern for fit in Balanced.find(Scan(pruned(4, 2, (64, 256))))]
    assert found[:2] == [Balanced(4, 2), Balanced(8, 4)]
    assert Balanced(16, 8) in found
    assert all(pattern.bank % 4 == 0 for pattern in found)


def test_a_kept_weight_may_be_zero():
    weight = np.round(pruned(4, 2, (128, 128)) * 8).astype(np.int8)
    weight[np.random.default_rng(1).random(weight.shape) < 0.05] = 0
    assert (weight != 0).mean() < 0.48
    fit = Balanced.detect(weight)
    assert fit.pattern == Balanced(4, 2)
    assert fit.evidence.exact
    assert fit.evidence.padding == pytest.approx(1 - (weight != 0).mean() / 0.5)


def test_a_near_miss_says_what_and_where():
    weight = pruned(16, 4, (1024, 1024))
    for row, bank in ((17, 3), (20, 5), (31, 0)):
        free = np.flatnonzero(weight[row, 16 * bank :][:16] == 0)[0]
        weight[row, 16 * bank + free] = 1
    found = Balanced.find(Scan(weight))
    near, exact = (next(f for f in found if f.pattern == Balanced(16, k)) for k in (4, 5))
    assert exact.evidence.exact
    assert near.summary() == (
        "balanced 4 of 16 but for 3 of 65,536 banks; first at row 17, bank 3; padding costs 0.39 %"
    )
    assert near.cost.relative < exact.cost.relative
    assert Balanced.detect(weight).pattern == Balanced(16, 4)


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.75, 0.9, 0.99])
@pytest.mark.parametrize("shape", [(64, 64), (33, 77), (256, 576), (1, 4096)])
def test_random_masks_are_not_balanced(sparsity, shape):
    weight = np.random.default_rng(1).random(shape) > sparsity
    assert Balanced.detect(weight) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_or_nothing_is_not_balanced(value):
    assert Balanced.detect(np.full((8, 8), value)) is None


def test_a_single_column_has_no_banks():
    assert Balanced.detect(np.arange(8.0)[:, None] % 2) is None
