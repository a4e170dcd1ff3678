"""Small networks that hold every kind of GPU kernel, for the executor of PTX and for GPUs."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.pruner import Pruner

BOUNDS = {torch.float32: 1e-4, torch.float16: 2e-2}
"""Error of an output, relative and absolute, by the number type that the network runs in."""


class Attention(nn.Module):
    """A transformer's block: norms, attention of four heads, two layers with GELU."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.joined, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.joined(self.norm(x)).reshape(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, 64))
        return x + self.down(functional.gelu(self.up(x)))


def mobile():
    """A MobileNet block between a first convolution and a classifier."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU6()),
        *(nn.Conv2d(16, 32, 1), nn.ReLU6()),
        *(nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.ReLU6(), nn.Conv2d(32, 16, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    )


class Gate(nn.Module):
    """Squeeze and excitation: channels times a gate that their means give."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)

    def forward(self, x):
        means = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(functional.silu(self.down(means))))


def gated():
    """Blocks of EfficientNet: sigmoids behind depthwise and 1x1 layers, with and without a gate."""
    return nn.Sequential(
        *(nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.SiLU(), Gate(), nn.Conv2d(32, 32, 1)),
        *(nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.SiLU(), nn.Conv2d(32, 16, 1), nn.SiLU()),
    )


def stack():
    model = nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 64), nn.Linear(64, 10))
    pruner = Pruner(model, BalancedPruning(0.75))
    pruner.step()
    pruner.squash_mask()
    return model


NETWORKS = {
    "stack": (stack, (3, 96)),
    "mobile": (mobile, (2, 3, 20, 20)),
    "gated": (gated, (1, 32, 9, 9)),
    "attention": (Attention, (2, 9, 64)),
}


def network(name: str) -> tuple[nn.Module, torch.Tensor, np.ndarray]:
    """Return a network in float32, an input and what PyTorch makes of it."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(shape)
    with torch.no_grad():
        return model, x, model(x).numpy()
