"""Pruned constants that multiply from the left run sparse, and every one has a row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.kernels import integers
from tvm_sparse.selection.decisions import DENSE

PRODUCTS = {
    "matrix": ((48, 64), (64, 24), torch.matmul),
    "odd extents": ((50, 20), (20, 7), torch.matmul),
    "images": ((32, 32), (2, 3, 32, 5), torch.matmul),
    "batch": ((3, 32, 48), (3, 48, 10), torch.matmul),
    "batch of images": ((3, 32, 16), (2, 3, 16, 10), torch.matmul),
    "batch of odd matrices": ((3, 20, 16), (3, 16, 10), torch.matmul),
    "a batch of one": ((1, 32, 16), (2, 16, 10), torch.matmul),
    "column": ((32, 48), (48, 1), torch.matmul),
    "vector": ((32, 48), (48,), torch.mv),
    "einsum": ((32, 48), (2, 48, 6), lambda w, x: torch.einsum("oi,bin->bon", w, x)),
}


class Product(nn.Module):
    def __init__(self, weight, function) -> None:
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.from_numpy(weight)), function

    def forward(self, x):
        return torch.relu(self.function(self.weight, x) + 1)


def _model(name, sparsity=0.8):
    shape, inputs, function = PRODUCTS[name]
    rng = np.random.default_rng(0)
    weight = integers(rng, shape, sparsity)
    return Product(weight, function).eval(), torch.from_numpy(integers(rng, inputs))


@pytest.mark.grid
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("sparsity", [0.0, 0.8])
def test_results_are_exact_and_each_has_a_row(name, sparsity):
    model, x = _model(name, sparsity)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    (row,) = library.decisions
    assert row.layer == "weight"
    assert row.sparsity == pytest.approx((model.weight == 0).float().mean().item())
    assert torch.equal(library(x), model(x))
    assert all(kernel.ours for kernel in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize("name", sorted({*PRODUCTS} - {"batch of odd matrices"}))
def test_a_sparse_format_is_offered(name):
    model, x = _model(name)
    config = ts.Config(measure=False, force={"weight": "unstructured"})
    if name in ("column", "vector"):
        config = ts.Config(measure=False, force={"weight": "joint"})
    library = ts.compile(model, (x,), config=config)
    (row,) = library.decisions
    assert row.chosen not in DENSE
    assert torch.equal(library(x), model(x))


@pytest.mark.grid
@pytest.mark.parametrize("axis", [0, 2])
def test_open_extents(axis):
    rng = np.random.default_rng(0)
    model = Product(integers(rng, (32, 48), 0.8), torch.matmul).eval()
    x = torch.from_numpy(integers(rng, (4, 48, 6)))
    shapes = {"x": {axis: torch.export.Dim("n", max=64)}}
    library = ts.compile(model, (x,), dynamic_shapes=shapes, config=ts.Config(measure=False))
    (row,) = library.decisions
    assert row.chosen not in DENSE
    for extent in (3, 9):
        given = list(x.shape)
        given[axis] = extent
        x = torch.from_numpy(integers(rng, given))
        assert torch.equal(library(x), model(x))


def test_inspection_has_the_same_layers():
    model, x = _model("batch")
    program = torch.export.export(model, (x,))
    (row,) = ts.inspect(program).rows
    assert (row.layer, row.shape) == ("weight", (96, 48))
    assert row.sparsity == pytest.approx((model.weight == 0).float().mean().item())
