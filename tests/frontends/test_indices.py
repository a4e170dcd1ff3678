"""Indices out of range neither read foreign memory nor give plausible numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.frontends.running import run
from tvm_sparse.errors import InputError
from tvm_sparse.frontends import load
from tvm_sparse.passes.graph.rewrite import op_name


class Rows(nn.Module):
    def __init__(self, table: torch.Tensor, places: torch.Tensor | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(table, requires_grad=False)
        self.places = places

    def forward(self, index):
        if self.places is not None:
            index = index + self.table[self.places].sum().long() * 0
        return self.table[index]


def operators(model) -> list[str]:
    body = model.module["main"].body
    return [op_name(binding.value) for block in body.blocks for binding in block.bindings]


def test_an_index_from_outside_may_be_negative_and_must_be_in_range():
    table = torch.arange(12.0).reshape(4, 3)
    model = load(Rows(table), torch.tensor([0, 1, 2]))
    (found,) = run(model, torch.tensor([1, -1, -4]))
    assert np.array_equal(found, table[[1, 3, 0]])
    (found,) = run(model, torch.tensor([10**12, -5, 3]))
    assert np.isnan(found[:2]).all() and np.array_equal(found[2], table[3])


def test_integers_are_bounded():
    table = torch.arange(12).reshape(4, 3)
    (found,) = run(load(Rows(table), torch.tensor([0, 1])), torch.tensor([10**12, 2]))
    assert np.array_equal(found, table[[3, 2]])


def test_an_embedding():
    module = nn.Embedding(4, 3)
    model = load(module, torch.tensor([[0, 1]]))
    (found,) = run(model, torch.tensor([[2, 10**12]]))
    assert np.array_equal(found[0, 0], module.weight.detach()[2]) and np.isnan(found[0, 1]).all()


def test_constant_indices_get_no_arithmetic_unless_negative():
    table, example = torch.randn(4, 3), torch.tensor([0])
    plain = operators(load(Rows(table, torch.tensor([1, 2])), example))
    wrapped = operators(load(Rows(table, torch.tensor([1, -2])), example))
    assert plain.count("where") == 1 and wrapped.count("where") == 2


def test_a_mask_as_an_index_is_refused():
    class Select(nn.Module):
        def forward(self, x):
            return x[x > 0]

    with pytest.raises(InputError, match="selects elements with a mask"):
        load(Select(), torch.randn(4))


@pytest.mark.grid
@pytest.mark.parametrize(
    ("pick", "axis"),
    [
        (lambda x, i: x[i], 0),
        (lambda x, i: x[:, i], 1),
        (lambda x, i: x[i, i], 0),
        (lambda x, i: x[i, i], 1),
        (lambda x, i: x[i.int()], 0),
        (lambda x, i: torch.cat([x, x])[i], 0),
        (torch.take, 0),
        (lambda x, i: x[:, torch.tensor([-1, 0])] + 0 * i.sum(), 1),
        (lambda x, i: torch.index_put(x, (i,), torch.zeros(3, 6)), 0),
    ],
)
def test_negative_indices_along_an_open_axis_count_from_its_end(pick, axis):
    class Pick(nn.Module):
        def forward(self, x, index):
            return pick(x, index)

    x, index = torch.arange(24.0).reshape(4, 6), torch.tensor([0, -1, -3])
    extent = torch.export.Dim("n", min=4, max=64)
    model = load(Pick(), (x, index), dynamic_shapes=({axis: extent}, None))
    other = torch.arange(60.0).reshape((10, 6) if axis == 0 else (4, 15))
    for source in (x, other):
        (found,) = run(model, source, index)
        assert np.array_equal(found, pick(source, index))
