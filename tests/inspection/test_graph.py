"""Layers of an imported model: constants that products and convolutions read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize, prune

from tvm_sparse import Config, compile, inspect
from tvm_sparse.frontends import load
from tvm_sparse.inspection.graph import graph_layers


def kinds(module: nn.Module, *inputs: torch.Tensor) -> dict[str, str]:
    return {layer.name: layer.layer_type for layer in graph_layers(load(module, inputs))}


@pytest.mark.filterwarnings("ignore:The tensor attribute")
def test_masks_in_the_graph_are_applied_and_names_are_plain():
    class Half(nn.Module):
        def __init__(self, shape: torch.Size) -> None:
            super().__init__()
            self.register_buffer("mask", (torch.rand(shape) < 0.5).float())

        def forward(self, weight):
            return weight * self.mask

    module, x = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4)), torch.ones(1, 16)
    prune.l1_unstructured(module[0], "weight", 0.75)
    parametrize.register_parametrization(module[1], "weight", Half(module[1].weight.shape))
    first, second = graph_layers(load(torch.export.export(module, (x,))))
    assert (first.name, first.weight, first.storage) == ("0", "0.weight", "masked")
    assert (second.name, second.weight, second.storage) == ("1", "1.weight", "masked")
    assert np.array_equal(first.read(), module[0].weight.detach())
    assert np.array_equal(second.read(), module[1].weight.detach())


def test_recurrent_and_attention_layers():
    lstm = kinds(nn.LSTM(4, 8), torch.ones(3, 1, 4))
    assert lstm == {"weight_ih_l0": "lstm input gates", "weight_hh_l0": "lstm hidden gates"}
    encoder = kinds(nn.TransformerEncoderLayer(16, 2, 32), torch.ones(3, 1, 16))
    assert encoder == {
        "self_attn.in_proj_weight": "attention projection",
        "self_attn.out_proj": "attention projection",
        "linear1": "linear",
        "linear2": "linear",
    }


def test_transposed_convolutions_have_outputs_first():
    module = nn.Sequential(nn.ConvTranspose2d(4, 6, 3), nn.Conv2d(6, 6, 3, groups=3))
    first, second = graph_layers(load(module, torch.ones(1, 4, 5, 5)))
    assert (first.layer_type, second.layer_type) == ("transposed conv2d", "grouped conv2d")
    assert np.array_equal(first.read(), module[0].weight.detach().transpose(0, 1))


def test_a_weight_on_the_left_is_not_transposed():
    class Left(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Parameter(torch.randn(5, 8))

        def forward(self, x):
            return self.mix @ x

    module = Left()
    (layer,) = graph_layers(load(module, torch.ones(8, 3)))
    assert layer.name == "mix" and np.array_equal(layer.read(), module.mix.detach())


def test_products_of_activations_are_no_layers():
    class Square(nn.Module):
        def forward(self, x):
            return x @ x

    assert graph_layers(load(Square(), torch.ones(4, 4))) == []


@pytest.mark.grid
@pytest.mark.parametrize("equation", [None, "ki,kj->ij", "hld,hed->hle", "hed,hld->hle"])
def test_products_with_a_constant_are_the_layers_that_are_compiled(equation):
    """Constants on the left, on the right and in batches: what is seen is what is compiled."""

    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            extents = (4, 128, 128) if equation and "h" in equation else (64, 64)
            weight = torch.randn(extents)
            places = weight.unflatten(-1, (-1, 16)).abs().argsort(-1).argsort(-1)
            self.mix = nn.Parameter(weight * (places < 4).flatten(-2))

        def forward(self, x):
            if equation is None:
                return self.mix @ x
            operands = (self.mix, x) if equation.startswith(("ki", "hed")) else (x, self.mix)
            return torch.einsum(equation, *operands)

    module = Product().eval()
    x = torch.randn(4, 32, 128) if equation and "h" in equation else torch.randn(64, 32)
    (row,) = inspect(torch.export.export(module, (x,))).rows
    library = compile(module, (x,), config=Config(measure=False, cache=False))
    (decision,) = library.decisions
    assert (row.layer, str(row.pattern)) == (decision.layer, str(decision.pattern))
    torch.testing.assert_close(library(x), module(x), rtol=1e-4, atol=1e-4)
