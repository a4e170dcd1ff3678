"""``len(x)`` of a tensor with an open first extent."""

from __future__ import annotations

import builtins

import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tvm_sparse.frontends.modules.tensor_lengths import TensorLengths


class Queries(nn.Module):
    """As many queries as there are items; what else has a length is counted, too."""

    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 3, 8))
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x):
        x = torch.cat([self.queries.repeat(len(x), 1, 1), x], 1)
        for i in range(len(self.layers)):
            x = self.layers[i](x) / len(x.shape)
        return x.reshape(len(x) * x.shape[1], -1) + len(self.queries)


def test_the_length_of_a_tensor_stays_open():
    model, x = Queries().eval(), torch.randn(2, 4, 8)
    library = ts.compile(model, (x,), dynamic_shapes=({0: Dim("n", min=1, max=9)},))
    for n in (1, 2, 9):
        x = torch.randn(n, 4, 8)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_len_is_what_it_was_behind():
    before = builtins.len
    with TensorLengths():
        assert len(torch.ones(3, 2)) == 3 and len("four") == 4 and builtins.len is not before
    assert builtins.len is before
