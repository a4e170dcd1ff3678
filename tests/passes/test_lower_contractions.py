"""LowerContractions: what products of activations read in place, in compiled networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tvm_sparse as ts


class Attention(nn.Module):
    """Scores of rows with rows, of which ``cut`` makes two of one tensor (heads, 3, rows, 24)."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut

    def forward(self, x):
        query, key = self.cut(x)
        return functional.softmax(query @ key.transpose(-1, -2), -1)


CUTS = {
    "select": lambda x: (x[:, 0], x[:, -1]),
    "slice": lambda x: (x[:, 0, :, 8:], x[:, 2, 3:, -16:]),
    "clamped": lambda x: (x[:, 1, -1000:, :4], x[:, 1, :, :4]),
    "stepped": lambda x: (x[:, 0, ::2], x[:, 1, :, :]),
}


@pytest.mark.parametrize("cut", CUTS)
def test_slices_are_read_in_place(cut):
    model = Attention(CUTS[cut]).eval()
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 19, 24)).astype("float32"))
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-6)
    kernels = [kernel.function for kernel in library.kernels]
    assert len(kernels) == (3 if cut == "stepped" else 2), kernels
