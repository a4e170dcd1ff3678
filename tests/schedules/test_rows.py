"""The rule for softmax and layer norm: small results stay in registers and on the stack."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tests.kernels import host, run
from tvm_sparse.ops.tensors.rows import layer_norm, softmax
from tvm_sparse.schedules.build import build_function

OPERATORS = {
    "softmax": lambda shape: softmax(shape, "float32"),
    "layer_norm": lambda shape: layer_norm(shape, "float32", 1e-5),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("length", [16, 37])
def test_short_rows_call_no_allocator(operator, length):
    source = build_function(OPERATORS[operator]((8, length)), host()).inspect_source("ll")
    assert "TVMBackendAllocWorkspace" not in source


@pytest.mark.parametrize(
    ("length", "place"), [*((37, p) for p in (0, 20, 21, 36)), (528, 0), (528, 527)]
)
def test_nan_stays_in_its_row(length, place):
    x = np.random.default_rng(0).standard_normal((8, length)).astype(np.float32)
    x[2, place] = np.nan
    got = run(softmax(x.shape, "float32"), [x], x.shape)
    assert np.isnan(got).all(-1).tolist() == [row == 2 for row in range(8)]
    assert np.isfinite(got).all(-1).sum() == 7


CUT = {
    "padding": lambda x: F.pad(x, (0, 0, 0, 3, 0, 5)),
    "padding, windows": lambda x: F.pad(x, (0, 0, 0, 2, 0, 2)).unfold(1, 6, 6),
    "first of each image": lambda x: x[:, 0, 0],
    "slice twice": lambda x: x[:, 1:] + x[:, :-1] * 2,
    "repetition": lambda x: x.repeat(1, 2, 1, 1),
}
"""What leaves other rows behind it than it is given."""


@pytest.mark.grid
@pytest.mark.parametrize(
    ("norm", "use", "batch"),
    [
        *((nn.LayerNorm(136), use, 2) for use in CUT),
        (nn.Softmax(-1), "padding", 2),
        (nn.LayerNorm(136), "first of each image", None),
    ],
)
def test_what_changes_rows_follows_them(norm, use, batch):
    class Network(nn.Module):
        def forward(self, x):
            return CUT[use](norm(x))

    x = torch.randn(batch or 3, 10, 10, 136)
    dynamic = None if batch else ({0: torch.export.Dim.DYNAMIC},)
    config = ts.Config(sparse=False, measure=False, cache=False, tuned=False)
    library = ts.compile(Network().eval(), (x,), dynamic_shapes=dynamic, config=config)
    torch.testing.assert_close(library(x), Network()(x).detach(), rtol=1e-4, atol=1e-5)
