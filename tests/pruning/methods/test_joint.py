import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import JointPruning, balanced, block, joint


def linear(weight):
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    return nn.Sequential(layer)


WEIGHT = torch.tensor(
    [[4.0, 1.0, 3.0, 2.0], [1.0, 4.0, 2.0, 3.0], [9.0, 8.0, 0.3, 0.1], [7.0, 6.0, 0.1, 0.3]]
)


def test_and_of_two_independent_masks_by_hand():
    # p = 0.5: both parts at 50 %. Fine: two of four a row. Coarse (2x2 blocks, gradient 1): sums
    # of squares are 34, 26, 230, 0.2, so the right blocks go.
    model = linear(WEIGHT)
    losses = [model(torch.ones(1, 4)).sum()]
    pruner = joint(model, 0.5, mix=0.5, block=(2, 2), vectors_per_row=1, losses=losses)
    assert pruner.masks["0.weight"].int().tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 0, 0],
    ]
    assert pruner.report.sparsity == 10 / 16


def test_compensated_shares_equations_2_and_3():
    # s_t = 0.5, p = 0.8: the fine part has all of it, the coarse part 0.5 * 0.2 / 0.8 = 1/8: two
    # of sixteen 1x1 blocks, which are the smallest weights.
    model = linear(WEIGHT + torch.arange(16).reshape(4, 4) / 1000)
    pruner = joint(model, 0.5, mix=0.8, block=(1, 1), vectors_per_row=1, criterion="magnitude")
    assert pruner.masks["0.weight"].sum(1).tolist() == [2, 2, 2, 2]
    pruner = joint(
        linear(WEIGHT), 0.5, mix=0.2, block=(1, 1), vectors_per_row=1, criterion="magnitude"
    )
    assert pruner.report.layers[0].sparsity == 0.5


@given(st.integers(1, 20), st.integers(1, 40), st.floats(0, 1), st.integers(0, 50))
def test_the_ends_are_balanced_and_block_sparsity(rows, cols, sparsity, seed):
    torch.manual_seed(seed)
    weight = torch.randn(rows, cols)
    options = {"block": (4, 4), "vector": 8, "criterion": "magnitude"}
    fine = joint(linear(weight), sparsity, mix=1.0, **options).masks["0.weight"]
    coarse = joint(linear(weight), sparsity, mix=0.0, **options).masks["0.weight"]
    assert torch.equal(fine, balanced(linear(weight), sparsity, bank=8).masks["0.weight"])
    assert torch.equal(
        coarse, block(linear(weight), sparsity, rows=4, cols=4, order="ihw").masks["0.weight"]
    )


@given(st.floats(0, 1), st.floats(0, 1))
def test_compensation_reaches_the_target_where_everything_divides(sparsity, mix):
    torch.manual_seed(0)
    model = linear(torch.randn(40, 40))
    pruner = joint(model, sparsity, mix=mix, vectors_per_row=1, criterion="magnitude")
    # One part alone has the whole target, up to rounding to whole weights and blocks.
    assert pruner.report.sparsity >= sparsity - 0.5 / 40 - 1e-9


def test_only_mixes_below_one_need_gradients():
    assert JointPruning(0.5, mix=0.5).gradients
    assert not JointPruning(0.5, mix=1.0).gradients
    assert not JointPruning(0.5, criterion="magnitude").gradients
    with pytest.raises(InputError, match="no gradients were accumulated"):
        joint(linear(WEIGHT), 0.5)


def test_edges_are_reported():
    report = joint(linear(torch.randn(6, 8)), 0.5, mix=0.0, criterion="magnitude").report
    assert report.layers[0].note == "33.3% edge outside the blocks"
    assert np.isclose(report.sparsity, 0.5 * 32 / 48)


@pytest.mark.parametrize("wrong", [{"mix": 2}, {"block": (0, 4)}, {"vector": 0}])
def test_wrong_parameters(wrong):
    with pytest.raises(InputError):
        JointPruning(0.5, **wrong)
