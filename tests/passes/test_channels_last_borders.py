"""Borders that follow from open extents: planes stay channels last around them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Same(nn.Module):
    """Layers with TensorFlow's padding, which is one more behind a plane than before it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, 2, groups=32)
        self.last = nn.Conv2d(32, 16, 3, 2)

    def forward(self, x):
        for layer in (self.first, self.second, self.last):
            (size, step), (h, w) = (layer.kernel_size[0], layer.stride[0]), x.shape[-2:]
            rows, columns = (max((-(n // -step) - 1) * step + size - n, 0) for n in (h, w))
            widths = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
            x = torch.relu(layer(nn.functional.pad(x, widths)))
        return x


@pytest.mark.parametrize("opened", [False, True])
def test_planes_stay_channels_last(opened):
    model = Same().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randint(-3, 4, parameter.shape))
    shapes = ({2: torch.export.Dim("h", min=7, max=40), 3: torch.export.Dim("w", min=7, max=40)},)
    x = torch.randint(-3, 4, (1, 16, 17, 20)).float()
    library = ts.compile(model, (x,), dynamic_shapes=shapes if opened else None, config=CONFIG)
    names = [kernel.function for kernel in library.kernels]
    assert not any("permute" in name or "transpose" in name for name in names[1:-1])
    if not opened:
        assert not any("pad" in name for name in names)
        assert len([name for name in names if name.endswith("_bordered")]) == 2
    for size in ((17, 20), (7, 8), (24, 13)) if opened else ((17, 20),):
        y = torch.randint(-3, 4, (1, 16, *size)).float()
        assert torch.equal(torch.as_tensor(library(y)), model(y))
