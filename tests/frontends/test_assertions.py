"""What a model asserts of a tensor is checked in each call."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse_runtime.errors import SparseRuntimeError


class Positive(nn.Module):
    def forward(self, x, mask):
        torch._check_tensor_all(mask > 0, lambda: "the mask has holes")
        return x.sort().values * 2


def test_that_all_elements_are_true():
    x, mask = torch.randn(3), torch.ones(4)
    config = ts.Config(cache=False, tuned=False)
    library = ts.compile(Positive(), (x, mask), config=config)  # also times a kernel of TVM
    torch.testing.assert_close(library(x, mask), Positive()(x, mask))
    mask[2] = -1
    with pytest.raises(SparseRuntimeError, match="expected what the model asserts"):
        library(x, mask)
