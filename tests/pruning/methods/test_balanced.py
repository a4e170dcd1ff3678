import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning import BalancedPruning, Levels, Pruner, balanced, n_m
from tvm_sparse.pruning.methods.balanced import reaching_keeps


def linear(rows):
    weight = torch.tensor(rows)
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight
    return nn.Sequential(layer)


def test_two_of_four_by_hand():
    model = linear([[1.0, -4.0, 3.0, 2.0, 0.1, 0.2, -0.4, 0.3]])
    pruner = balanced(model, 0.5, bank=4)
    assert model[0].weight.tolist() == [
        [0, -4.0, 3.0, 0, 0, 0, *torch.tensor([-0.4, 0.3]).tolist()]
    ]
    again = n_m(linear(model[0].weight.tolist()))
    assert torch.equal(pruner.masks["0.weight"], again.masks["0.weight"])


def test_figure_2_of_the_joint_paper():
    first = [1.2, 1.4, -0.2, 0.9, -0.3, 1.8, -2.1, 0.7, -0.4, 1.3]
    second = [0.5, -0.7, 1.5, 0.9, 1.1, -1.9, 1.2, 0.2, 0.5, -1.6]
    mask = balanced(linear([first, second]), 0.6, bank=5).masks["0.weight"].int().tolist()
    assert mask == [[1, 1, 0, 0, 0, 1, 1, 0, 0, 0], [0, 0, 1, 0, 1, 1, 0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("order", "expected"), [("ihw", [[1, 0], [1, 0]]), ("hwi", [[1, 1], [0, 0]])]
)
def test_order_says_what_a_bank_of_a_convolution_is(order, expected):
    # Two input channels, two taps. A bank of 2 is both taps of a channel (ihw), or both channels
    # of a tap (hwi).
    conv = nn.Conv2d(2, 1, (1, 2), bias=False)
    conv.weight.data = torch.tensor([[[[4.0, 2.0]], [[3.0, 1.5]]]])
    mask = balanced(nn.Sequential(conv), 0.5, bank=2, order=order).masks["0.weight"]
    assert mask[0, :, 0].int().tolist() == expected


@given(
    st.integers(1, 5), st.integers(1, 40), st.integers(1, 17), st.floats(0, 1), st.integers(0, 99)
)
def test_every_full_bank_keeps_the_same_number(rows, cols, bank, sparsity, seed):
    torch.manual_seed(seed)
    model = linear(torch.randn(rows, cols).tolist())
    mask = balanced(model, sparsity, bank=bank).masks["0.weight"].numpy()
    full = mask[:, : cols // bank * bank].reshape(rows, -1, bank).sum(-1)
    keep = int(np.floor(bank * (1 - sparsity) + 0.5))
    assert (full == keep).all()
    assert (mask[:, cols // bank * bank :].sum(-1) == min(keep, cols % bank)).all()


@given(st.lists(st.floats(0.05, 1), min_size=2, max_size=4), st.integers(0, 99))
def test_a_pruned_weight_stays_pruned(levels, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(37, 3))
    steps = sorted(levels)
    pruner = Pruner(model, BalancedPruning(steps[-1], bank=8), schedule=Levels(steps))
    before = torch.ones(3, 37, dtype=torch.bool)
    for _ in steps:
        pruner.step()
        now = pruner.masks["0.weight"].clone()
        assert not (now & ~before).any()
        before = now
        with torch.no_grad():
            model[0].parametrizations.weight.original.normal_()  # "training"


def test_reach_takes_the_layer_that_loses_least():
    # Bank 4 at 62.5 %: two or one kept. In `flat` the second is as large as the first, in `steep`
    # it is a tenth, so `steep` goes down to one and the mean of both is the target.
    flat, steep = np.array([[5.0, 5.0, 0, 0]]), np.array([[10.0, 1.0, 0, 0]])
    assert reaching_keeps({"flat": flat, "steep": steep}, 4, 0.625) == {"flat": 2, "steep": 1}
    assert reaching_keeps({"flat": flat, "steep": steep}, 4, 0.5) == {"flat": 2, "steep": 2}
    assert reaching_keeps({"flat": flat, "steep": steep}, 4, 0.7) == {"flat": 1, "steep": 1}


@given(st.floats(0, 0.9375), st.integers(0, 99))
def test_reach_reaches(target, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16), nn.Linear(16, 48))
    report = balanced(model, target, bank=16, rounding="reach").report
    assert report.sparsity >= target - 1e-9
    assert {r.sparsity * 16 % 1 for r in report.layers} == {0.0}
    for layer in report.layers:
        assert abs(layer.sparsity - target) < 1 / 16 + 1e-9


def test_reach_makes_up_for_short_banks():
    # 20 columns are a bank of 16 and one of 4, which keeps all its 4 at k = 4.
    report = balanced(nn.Sequential(nn.Linear(20, 8)), 0.75, bank=16, rounding="reach").report
    assert report.layers[0].pattern.startswith("balanced 2 of 16")
    assert report.sparsity == 1 - (2 + 2) / 20


@pytest.mark.parametrize(("rows", "share"), [(64, 2), (64, 4), (40, 2), (7, 2), (100, 4)])
def test_rows_that_share_keep_the_columns_with_the_largest_sum(rows, share):
    torch.manual_seed(rows)
    model = linear(torch.randn(rows, 32).tolist())
    dense = model[0].weight.detach().abs().numpy()
    mask = balanced(model, 0.75, bank=16, share=share).masks["0.weight"].numpy()
    for row in range(rows):
        group = row // (16 * share) * 16 * share
        together = [r for r in range(group, group + 16 * share) if r % 16 == row % 16 and r < rows]
        assert all(np.array_equal(mask[r], mask[row]) for r in together)
        total = dense[together].sum(0).reshape(2, 16)
        best = np.argsort(-total, axis=1)[:, :4]
        assert np.array_equal(np.sort(best), np.nonzero(mask[row].reshape(2, 16))[1].reshape(2, 4))


def test_reach_refuses_to_empty_banks():
    with pytest.raises(InputError, match=r"banks of 4 reach 75.00% .* take a larger bank"):
        balanced(nn.Sequential(nn.Linear(16, 4)), 0.9, bank=4, rounding="reach")


def test_nearest_says_what_it_reached():
    report = balanced(nn.Sequential(nn.Linear(32, 4)), 0.9, bank=16).report
    assert report.layers[0].sparsity == 0.875
    assert report.layers[0].note == "bank 16 reaches 87.50%"


@pytest.mark.parametrize("wrong", [{"sparsity": 1.5}, {"order": "oihw"}, {"bank": 0}, {"share": 0}])
def test_wrong_parameters(wrong):
    with pytest.raises(InputError):
        BalancedPruning(**{"sparsity": 0.5, **wrong})
