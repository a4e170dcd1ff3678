"""What joins a layer's results with another chain of the same fused function."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

LAYERS = {
    "linear": lambda: nn.Linear(64, 64),
    "linear, no bias": lambda: nn.Linear(64, 64, bias=False),
    "few features": lambda: nn.Linear(64, 4),
    "1x1": lambda: nn.Conv2d(64, 32, 1),
    "3x3": lambda: nn.Conv2d(64, 32, 3, padding=1),
    "3x3, no bias": lambda: nn.Conv2d(64, 32, 3, padding=1, bias=False),
    "strided": lambda: nn.Conv2d(64, 32, 3, 2, padding=1),
    "depthwise": lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False),
}
PATTERNS = {
    "dense": None,
    "balanced": ts.prune.balanced,
    "block": ts.prune.block,
    "unstructured": ts.prune.unstructured,
}


class Refined(nn.Module):
    """A detector's box: a guess, as logits, plus what a layer says of it."""

    def __init__(self, layer, gated=False):
        super().__init__()
        self.layer, self.gated = layer, gated

    def forward(self, x, guess):
        guess = guess.clamp(0, 1)
        logits = torch.log(guess.clamp(min=1e-5) / (1 - guess).clamp(min=1e-5))
        found = self.layer(x)
        box = torch.sigmoid(found + logits)
        return box * found + torch.tanh(found - logits) if self.gated else box


@pytest.mark.grid
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", LAYERS)
def test_chains_beside_a_layer(name, pattern):
    """The other chain is too much to be computed with each result: logarithms, in vectors."""
    torch.manual_seed(0)
    network = Refined(LAYERS[name]()).eval()
    prune = PATTERNS[pattern]
    if prune is not None and name != "depthwise":
        prune(network, 0.75).squash_mask()
    x = torch.randn(2, 20, 64) if "linear" in name or "few" in name else torch.randn(1, 64, 12, 12)
    with torch.no_grad():
        guess = torch.rand_like(network.layer(x))
        want = network(x, guess)
    config = ts.Config(measure=False, cache=False)
    torch.testing.assert_close(ts.compile(network, (x, guess), config=config)(x, guess), want)


@pytest.mark.parametrize("name", ["linear", "linear, no bias"])
def test_several_join_what_several_read(name):
    torch.manual_seed(0)
    network, x = Refined(LAYERS[name](), gated=True).eval(), torch.randn(2, 20, 64)
    guess = torch.rand(2, 20, 64)
    library = ts.compile(network, (x, guess), config=ts.Config(measure=False, cache=False))
    with torch.no_grad():
        torch.testing.assert_close(library(x, guess), network(x, guess))
