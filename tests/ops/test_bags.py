"""Bags of embeddings against PyTorch: every mode, offsets, paddings, factors and wild indices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding_bag

import tvm_sparse as ts
from tvm_sparse.ops.tensors.bags import MODES

CONFIG = ts.Config(measure=False, cache=False)


class Bag(torch.nn.Module):
    def __init__(self, rows: int, width: int, dtype: torch.dtype = torch.float32, **how) -> None:
        super().__init__()
        self.how = how
        self.table = torch.nn.Parameter(torch.randn(rows, width, dtype=dtype))

    def forward(self, indices, *rest):
        if self.how["mode"] == "sum" and rest and rest[-1].is_floating_point():
            *rest, factors = rest
            return embedding_bag(indices, self.table, *rest, **self.how, per_sample_weights=factors)
        return embedding_bag(indices, self.table, *rest, **self.how)


def check(module, *inputs, tolerance=1e-5):
    with torch.no_grad():
        expected = module(*inputs)
    library = ts.compile(module, inputs, config=CONFIG)
    torch.testing.assert_close(library(*inputs), expected, atol=tolerance, rtol=tolerance)
    return library


@pytest.mark.grid
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 7, 64, 100])
def test_bags_of_one_length(mode, width):
    library = check(Bag(50, width, mode=mode), torch.randint(0, 50, (6, 5)))
    assert any("embedding_bag" in kernel.function for kernel in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("closed", [False, True])
def test_offsets_with_empty_bags_and_a_row_that_does_not_count(mode, closed):
    indices, offsets = torch.tensor([3, 1, 3, 4, 1, 0, 3]), torch.tensor([0, 0, 3, 4, 6])
    bag = Bag(5, 20, mode=mode, padding_idx=3, include_last_offset=closed)
    check(bag, indices, offsets)


def test_factors_of_rows():
    check(Bag(9, 33, mode="sum"), torch.randint(0, 9, (4, 6)), torch.randn(4, 6))


def test_half_precision_adds_up_in_single_precision():
    bag = Bag(9, 16, torch.bfloat16, mode="mean")
    check(bag, torch.randint(0, 9, (3, 40)), tolerance=1e-2)


def test_nan_is_a_maximum_and_a_wild_index_gives_nan():
    bag, indices = Bag(4, 3, mode="max"), torch.tensor([[0, 1], [2, 3]])
    with torch.no_grad():
        bag.table[1] = torch.nan
    library = ts.compile(bag, (indices,), config=CONFIG)
    found = np.isnan(library(indices).numpy()).all(1)
    np.testing.assert_array_equal(found, [True, False])
    wild = library(torch.tensor([[0, 4], [-1, 3]])).numpy()
    assert np.isnan(wild).all()
