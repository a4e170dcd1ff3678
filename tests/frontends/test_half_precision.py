"""Half precision rounds once: as near to the exact result as PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

FUNCTIONS = {
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean((0, 1)),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: x.norm(dim=-1),
    "running sum": lambda x: x.cumsum(-1),
    "power": lambda x: x.abs() ** 0.7,
}


class Each(nn.Module):
    def forward(self, x):
        return tuple(function(x) for function in FUNCTIONS.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_functions_and_sums_are_those_of_single_precision(dtype):
    x = torch.cat([torch.randn(2, 500), torch.randn(2, 500) * 1e-3], 1).to(dtype)
    outputs = ts.compile(Each(), (x,), config=CONFIG)(x)
    place = torch.finfo(dtype).eps
    for name, found, exact in zip(FUNCTIONS, outputs, Each()(x.double()), strict=True):
        assert found.dtype == dtype
        wrong = (found.double() - exact).abs() > place * exact.abs() + 1e-6
        assert not wrong.any(), name
