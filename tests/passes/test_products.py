"""Products whose extents are computed from open ones have our kernels, and are right."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts


class FramesByMatrix(nn.Module):
    """A constant times frames of a signal: a step of a Fourier transform."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randint(-3, 4, (64, 64)).float(), requires_grad=False)

    def forward(self, x):
        """Return ``(frames, 64, 32)`` of ``(samples, 64)``; samples that fill none are left."""
        frames = x[: x.shape[0] // 32 * 32].reshape(-1, 64, 32)
        return torch.matmul(self.matrix, frames)


class HalfAttention(nn.Module):
    """Scores and sums of means of four rows."""

    def forward(self, x):
        """Return ``(batch, rows // 2 - 1, 64)`` of ``(batch, rows, 64)``."""
        y = nn.functional.avg_pool1d(x.transpose(1, 2), 4, 2).transpose(1, 2)
        return (y @ y.transpose(1, 2)) @ y


class MaskedAttention(nn.Module):
    """Sums of a first row and all rows, each of those up to its place: fused behind the product."""

    def forward(self, x):
        """Return ``(batch, rows + 1, 64)`` of ``(batch, rows, 64)``."""
        y = torch.cat([x[:, :1], x], 1)
        place = torch.arange(y.shape[1])
        known = (place[:, None] >= place[None]).float()
        return (y @ y.transpose(1, 2) * known) @ y


@pytest.mark.grid
@pytest.mark.parametrize(
    ("net", "example", "axes", "shapes"),
    [
        (FramesByMatrix(), (96, 64), ("n",), [(64, 64), (100, 64), (1000, 64)]),
        (HalfAttention(), (2, 33, 64), ("b", "n"), [(1, 4, 64), (3, 34, 64), (2, 71, 64)]),
        (MaskedAttention(), (2, 33, 64), ("b", "n"), [(1, 4, 64), (3, 31, 64), (2, 70, 64)]),
    ],
    ids=["constant", "attention", "masked"],
)
def test_computed_extents_have_our_kernels(net, example, axes, shapes):
    dims = {axis: Dim(name, min=4 if name == "n" else None) for axis, name in enumerate(axes)}
    library = ts.compile(
        net.eval(),
        (torch.zeros(example),),
        dynamic_shapes=(dims,),
        config=ts.Config(measure=False),
    )
    products = [k.rule for k in library.kernels if "matmul" in k.function]
    assert products and set(products) == {"Contraction"}
    for shape in shapes:
        x = torch.randint(-2, 3, shape).float()
        assert torch.equal(library.run(x)[0], net(x))
