"""Joint sparsity: both masks made, found again and recovered."""

import numpy as np
import pytest

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.joint import Joint


def joint_mask(pattern, shape, fine, coarse, seed=0):
    rng = np.random.default_rng(seed)
    return pattern.bank.project(rng.random(shape), fine) & pattern.block.project(
        rng.random(shape), coarse
    )


@pytest.mark.parametrize(
    ("sparsity", "mix", "fine", "coarse"),
    [(0.7, 0.8, 0.7, 0.175), (0.7, 0.5, 0.7, 0.7), (0.5, 0.0, 0.0, 0.5), (0.5, 1.0, 0.5, 0.0)],
)
def test_shares_of_equations_2_and_3(sparsity, mix, fine, coarse):
    assert Joint.targets(sparsity, mix) == pytest.approx((fine, coarse))


@pytest.mark.parametrize(("sparsity", "mix"), [(1.1, 0.5), (0.5, -0.1), (0.5, np.nan)])
def test_shares_outside_0_to_1_are_refused(sparsity, mix):
    with pytest.raises(InputError, match="both in 0 to 1"):
        Joint.targets(sparsity, mix)


def test_project_is_the_and_of_both():
    scores = np.random.default_rng(0).random((64, 64))
    pattern = Joint(Balanced(16, 8), Block(4, 4))
    mask = pattern.project(scores, 0.7)
    coarse = Block(4, 4).project(scores, 0.4)
    np.testing.assert_array_equal(mask, Balanced(16, 8).project(scores) & coarse)
    assert not Joint(Balanced(16, 0), Block(4, 4)).project(scores, 1.0).any()


@pytest.mark.parametrize("sparsity", [None, 0.4, 1.5])
def test_sparsities_that_banks_exceed_are_refused(sparsity):
    with pytest.raises(InputError, match="joint of balanced 8 of 16 and block 4x4"):
        Joint(Balanced(16, 8), Block(4, 4)).project(np.ones((64, 64)), sparsity)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("pattern", "shape", "fine", "coarse"),
    [
        (Joint(Balanced(16, 4), Block(16, 16)), (256, 512), None, 0.4),
        (Joint(Balanced(16, 4), Block(4, 4)), (256, 512), None, 0.3),
        (Joint(Balanced(32, 8), Block(8, 64)), (256, 512), None, 0.5),
        (Joint(Balanced(4, 2), Block(8, 8)), (256, 512), None, 0.3),
        (Joint(Balanced(16, 4), Block(1, 512)), (256, 512), None, 0.5),
        # The paper: K is all or half of the columns, blocks are 4 x 4, p = 0.8 and 0.5.
        (Joint(Balanced(2304, 691), Block(4, 4)), (512, 2304), 0.7, 0.175),
        (Joint(Balanced(1152, 346), Block(4, 4)), (512, 2304), 0.7, 0.175),
        (Joint(Balanced(1152, 346), Block(4, 4)), (512, 2304), 0.7, 0.7),
        # Its benchmark: K = 512, R = S = 4 and K = 2048, R = S = 16.
        (Joint(Balanced(512, 256), Block(4, 4)), (1024, 2048), 0.5, 0.5),
        (Joint(Balanced(2048, 1024), Block(16, 16)), (2048, 4096), 0.5, 0.25),
    ],
)
def test_both_masks_are_found(pattern, shape, fine, coarse):
    mask = joint_mask(pattern, shape, fine, coarse)
    fit = Joint.detect(mask)
    assert fit.pattern.block == pattern.block
    assert fit.pattern.bank.bank == pattern.bank.bank
    assert fit.pattern.bank.keep == pytest.approx(pattern.bank.keep, abs=0.01 * pattern.bank.bank)
    assert fit.evidence.exact
    assert fit.evidence.chance < 1e-9
    found_fine, found_coarse = fit.pattern.masks(mask)
    np.testing.assert_array_equal(found_fine & found_coarse, mask)


def test_masks_are_what_they_claim():
    pattern = Joint(Balanced(16, 4), Block(4, 8))
    mask = joint_mask(pattern, (62, 77), None, 0.5)
    fine, coarse = pattern.masks(mask)
    np.testing.assert_array_equal(fine & coarse, mask)
    banks = np.add.reduceat(fine, np.arange(0, 77, 16), axis=1, dtype=int)
    assert (banks == 4).all()
    padded = np.pad(coarse, ((0, 2), (0, 3)), "edge").reshape(16, 4, 10, 8)
    assert (padded.all(axis=(1, 3)) == padded.any(axis=(1, 3))).all()


def test_blocks_with_unknown_insides_limit_rows():
    rng = np.random.default_rng(0)
    mask = Block(4, 4).project(rng.random((256, 512)), 0.6) & (rng.random((256, 512)) < 0.3)
    fit = Joint.detect(mask)
    assert fit.pattern == Joint(Balanced(512, int(mask.sum(1).max())), Block(4, 4))


@pytest.mark.parametrize(
    "mask",
    [
        Balanced(16, 4).project(np.random.default_rng(0).random((256, 512))),
        Block(4, 4).project(np.random.default_rng(0).random((256, 512)), 0.7),
        np.random.default_rng(0).random((256, 512)) < 0.2,
        np.zeros((16, 16), bool),
    ],
    ids=["balanced", "block", "random", "zero"],
)
def test_one_mask_is_not_two(mask):
    assert Joint.detect(mask) is None


def test_mostly_full_blocks_are_blocks():
    rng = np.random.default_rng(0)
    mask = Block(4, 4).project(rng.random((256, 512)), 0.6) & (rng.random((256, 512)) < 0.9)
    assert Joint.detect(mask) is None


@pytest.mark.parametrize("seed", range(20))
def test_sparse_rows_and_columns_are_not_joint(seed):
    rng = np.random.default_rng(seed)
    scores = rng.random((96, 120)) * np.exp(np.add.outer(*(rng.normal(size=n) for n in (96, 120))))
    assert Joint.detect(scores > np.quantile(scores, 0.1 + 0.04 * seed)) is None
