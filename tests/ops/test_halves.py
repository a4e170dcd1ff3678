"""Rounding to bfloat16 is ml_dtypes's, bit by bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from tvm import te

import tvm_sparse as ts
from tests.kernels import run
from tvm_sparse.ops.halves import rounded


def test_every_upper_half_with_every_sort_of_lower_half():
    lows = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    bits = (np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | lows
    x = bits.view(np.float32)
    placeholder = te.placeholder(x.shape, "float32", "X")
    func = te.create_prim_func([placeholder, rounded(placeholder)])
    got = run(func, [x], x.shape, dtype="bfloat16")
    with np.errstate(invalid="ignore", over="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(got.view("u2")[numbers], expected.view("u2")[numbers])
    assert np.isnan(got[~numbers].astype(np.float32)).all()


@pytest.mark.parametrize("before", [nn.ReLU(), nn.GELU(), nn.Hardswish()])
def test_what_binds_variables_may_be_rounded(before):
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.before = nn.Linear(20, 33), before
            self.second = nn.Linear(33, 5).to(torch.bfloat16)

        def forward(self, x):
            return self.second(self.before(self.first(x)).to(torch.bfloat16))

    torch.manual_seed(0)
    model, x = Halves().eval(), torch.randn(4, 20)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), model(x).detach(), rtol=2e-2, atol=2e-2)
