import copy

import pytest
import torch
from torch import nn

from tvm_sparse.pruning import balanced
from tvm_sparse.pruning.masks import attach_mask, find_mask, squash_mask, squashed_copy


def masked_linear():
    layer = nn.Linear(3, 2, bias=False)
    layer.weight.data = torch.tensor([[1.0, -2.0, 3.0], [4.0, float("inf"), 6.0]])
    attach_mask(layer).mask.copy_(torch.tensor([[True, False, True], [True, False, True]]))
    return layer


def test_masked_entries_are_exact_zeros_whatever_they_were():
    assert masked_linear().weight.tolist() == [[1.0, 0.0, 3.0], [4.0, 0.0, 6.0]]


def test_attach_keeps_the_parameter_and_is_idempotent():
    layer = nn.Linear(3, 2)
    before = layer.weight
    mask = attach_mask(layer)
    assert before is layer.parametrizations.weight.original
    assert attach_mask(layer) is mask
    assert find_mask(layer) is mask
    assert find_mask(layer, "bias") is None


def test_masked_entries_get_no_gradient():
    layer = masked_linear()
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[1, 0, 1], [1, 0, 1]]


def test_squash_leaves_a_plain_parameter_and_the_module_class():
    layer = masked_linear()
    original = layer.parametrizations.weight.original
    squash_mask(layer)
    assert type(layer) is nn.Linear
    assert layer.weight is original
    assert layer.weight.tolist() == [[1.0, 0.0, 3.0], [4.0, 0.0, 6.0]]
    squash_mask(layer)
    assert set(layer.state_dict()) == {"weight"}


def test_squashing_a_copy_leaves_the_model_alone():
    model = nn.Sequential(masked_linear())
    expected = model[0].weight.detach().clone()
    plain = squashed_copy(model)
    squash_mask(copy.deepcopy(model)[0])
    assert torch.equal(model[0].weight, expected)
    assert torch.equal(plain[0].weight, expected)
    assert type(plain[0]) is nn.Linear
    assert find_mask(model[0]) is not None


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_compute_with_the_mask(kind):
    layer = kind(3, 4)
    reference = copy.deepcopy(layer)
    for name in ("weight_ih_l0", "weight_hh_l0"):
        mask = torch.rand_like(getattr(layer, name)) > 0.5
        attach_mask(layer, name).mask.copy_(mask)
        getattr(reference, name).data *= mask
    x = torch.rand(5, 2, 3)
    assert torch.equal(layer(x)[0], reference(x)[0])
    layer(x)[0].sum().backward()
    gradient = layer.parametrizations.weight_hh_l0.original.grad
    assert not gradient[~find_mask(layer, "weight_hh_l0").mask].any()
    for name in ("weight_ih_l0", "weight_hh_l0"):
        squash_mask(layer, name)
    assert torch.equal(layer(x)[0], reference(x)[0])
    assert not layer._forward_pre_hooks


def test_export_of_a_masked_module_matches():
    layer = nn.Conv2d(2, 3, 3)
    attach_mask(layer).mask.copy_(torch.rand(3, 2, 3, 3) > 0.5)
    x = torch.rand(1, 2, 5, 5)
    exported = torch.export.export(layer.eval(), (x,)).module()
    assert torch.equal(exported(x), layer(x))


class Tied(nn.Module):
    """Words in, scores of words out, one weight for both."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(32, 16), nn.Linear(16, 32, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words):
        return self.head(self.embedding(words))


def test_squashing_unties_a_weight_that_an_embedding_shares():
    model, words = Tied(), torch.arange(8)
    dense = model.embedding.weight.detach().clone()
    pruner = balanced(model, 0.5)
    assert "shares its weight with head" in pruner.report.skipped["embedding"]
    masked = model(words)
    copied = squashed_copy(model)
    pruner.squash_mask()
    for squashed in (model, copied):
        assert torch.equal(squashed(words), masked)
        assert torch.equal(squashed.embedding.weight, dense)
        assert squashed.head.weight is not squashed.embedding.weight
        assert (squashed.head.weight == 0).float().mean() == 0.5


def test_squashing_keeps_a_parameter_that_nothing_shares():
    model = nn.Sequential(nn.Linear(16, 16))
    parameter = model[0].weight
    balanced(model, 0.5).squash_mask()
    assert model[0].weight is parameter
