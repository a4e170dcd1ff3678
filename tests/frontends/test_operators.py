"""Converters of our own."""

from __future__ import annotations

import torch
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(sparse=False, measure=False, cache=False, tuned=False)


def test_an_index_of_more_than_32_bits_is_wild():
    layer = nn.Embedding(5, 4).requires_grad_(False)
    library = ts.compile(layer, (torch.tensor([0, 1, 2]),), config=CONFIG)
    found = library(torch.tensor([3, 2**32 + 1, 2**40]))
    torch.testing.assert_close(found[0], layer.weight[3])
    assert found[1:].isnan().all()
