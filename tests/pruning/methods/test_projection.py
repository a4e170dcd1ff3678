import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import PatternPruning, Pruner, UnstructuredPruning, block, unstructured


def linear(rows):
    weight = torch.tensor(rows)
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight
    return layer


ROWS = [[1.0, -1.0, 3.0, 0.0, 9.0], [1.0, 1.0, 0.0, 0.0, 9.0], [0.1, 0.1, 0.1, 0.1, 9.0]]


def test_blocks_by_magnitude_and_edges_stay():
    # Blocks 2x2: sums 4 and 3; the third row and the fifth column are edge.
    mask = block(nn.Sequential(linear(ROWS)), 0.5, rows=2, cols=2).masks["0.weight"].int().tolist()
    assert mask == [[1, 1, 0, 0, 1], [1, 1, 0, 0, 1], [1, 1, 1, 1, 1]]


def test_blocks_by_taylor_turn_the_ranking_round():
    # Gradient of the loss 10 * (w[0, 2] + ...) is 10 on the right block, 1 on the left: Taylor
    # scores are 4 * 1 and 9 * 100.
    model = nn.Sequential(linear(ROWS))
    x = torch.tensor([[1.0, 1.0, 10.0, 10.0, 0.0]])
    pruner = block(model, 0.5, rows=2, cols=2, criterion="taylor", losses=[model(x).sum()])
    assert pruner.masks["0.weight"][:2].int().tolist() == [[0, 0, 1, 1, 1]] * 2
    assert model[0].parametrizations.weight.original.grad is None


def test_taylor_without_gradients_says_what_to_do():
    with pytest.raises(InputError, match=r"0: no gradients were accumulated.*accumulate\(\)"):
        block(nn.Sequential(linear(ROWS)), 0.5, criterion="taylor")


def test_accumulated_taylor_scores_by_hand():
    model = nn.Sequential(linear([[2.0, -3.0]]))
    method = PatternPruning(Block(1, 1), 0.5, criterion="taylor")
    pruner = Pruner(model, method)
    for x in ([1.0, 2.0], [3.0, 1.0]):
        model.zero_grad()
        (model(torch.tensor([x])).sum() * 8).backward()
        assert pruner.accumulate(grad_scale=8)
    # (1 * 2)^2 + (3 * 2)^2 and (2 * -3)^2 + (1 * -3)^2
    assert pruner.state_dict()["importance"]["0.weight"].tolist() == [[40.0, 45.0]]
    pruner.step()
    assert pruner.masks["0.weight"].tolist() == [[False, True]]
    assert pruner.state_dict()["importance"] == {}


def test_a_batch_that_overflowed_does_not_count():
    model = nn.Sequential(linear([[2.0, -3.0]]))
    pruner = Pruner(model, PatternPruning(Block(1, 1), 0.5, criterion="taylor"))
    model(torch.tensor([[1.0, float("inf")]])).sum().backward()
    assert not pruner.accumulate()
    assert pruner.state_dict()["importance"] == {}


def test_unstructured_by_hand():
    model = nn.Sequential(linear([[1.0, 2.0]]), linear([[3.0], [0.5]]))
    masks = unstructured(model, 0.5).masks
    assert masks["0.weight"].tolist() == [[False, True]]
    assert masks["1.weight"].tolist() == [[True], [False]]
    model = nn.Sequential(linear([[1.0, 2.0]]), linear([[3.0], [4.0]]))
    masks = unstructured(model, 0.5, scope="global").masks
    assert not masks["0.weight"].any()
    assert masks["1.weight"].all()


@given(
    st.integers(1, 30), st.integers(1, 30), st.floats(0, 1), st.sampled_from(["layer", "global"])
)
def test_unstructured_keeps_the_largest(rows, cols, sparsity, scope):
    torch.manual_seed(rows * cols)
    model = nn.Sequential(nn.Linear(cols, rows, bias=False))
    dense = model[0].weight.detach().abs()
    mask = unstructured(model, sparsity, scope=scope).masks["0.weight"]
    assert int(mask.sum()) == int(np.floor(mask.numel() * (1 - sparsity) + 0.5))
    if mask.any() and not mask.all():
        assert dense[mask].min() >= dense[~mask].max()


def test_wrong_parameters():
    with pytest.raises(InputError):
        UnstructuredPruning(-0.1)
    with pytest.raises(InputError):
        PatternPruning(Block(1, 1), 0.5, order="hiw")
