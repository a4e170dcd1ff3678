"""Windows as columns against PyTorch: borders, steps, dilation, types, and planes without batch."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import tvm_sparse as ts

CONFIG = ts.Config(measure=False)

# Shape, kernel size, dilation, padding and stride.
CASES = [
    ((2, 3, 9, 20), 3, 1, 1, 1),
    ((1, 2, 14, 14), 3, 1, 0, 2),
    ((1, 2, 7, 33), (2, 5), (3, 2), (2, 4), (2, 3)),
    ((1, 1, 3, 4), 3, 1, 3, 1),
    ((1, 3, 1, 2), 1, 1, (2, 5), (1, 4)),
    ((1, 2, 8, 8), 4, 1, 0, 4),
    ((3, 16, 17), 3, 2, 2, 1),
]


class Unfold(torch.nn.Module):
    def __init__(self, *numbers):
        super().__init__()
        self.numbers = numbers

    def forward(self, x):
        return F.unfold(x, *self.numbers)


@pytest.mark.grid
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_element_is_where_pytorch_has_it(case):
    shape, *numbers = case
    x = torch.randn(shape)
    x[..., 0] = torch.nan
    library = ts.compile(Unfold(*numbers), (x,), config=CONFIG)
    torch.testing.assert_close(library(x), Unfold(*numbers)(x), rtol=0, atol=0, equal_nan=True)
    assert any("im2col" in kernel.function for kernel in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.bool])
def test_types(dtype):
    x = torch.randint(0, 2, (1, 2, 6, 9)).to(dtype)
    model = Unfold(3, 1, 1)
    assert torch.equal(ts.compile(model, (x,), config=CONFIG)(x), model(x))


def test_planes_without_elements():
    x = torch.zeros(0, 2, 6, 9)
    model = Unfold(3)
    assert ts.compile(model, (x,), config=CONFIG)(x).shape == model(x).shape
