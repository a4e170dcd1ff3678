"""Every layer's bytes beside those of PyTorch's own interpreter, which goes on with ours.

Rounding passes the smallest difference on, so whole networks do not agree byte for byte. One layer
from the same bytes does, but for values next to the middle of two bytes.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.test_quantization import Residual
from tests.zoo import torchvision_model

QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
NEAR = 1e-3
"""Steps between a value and the middle of two bytes, where both are right."""


class Kept(torch.fx.Interpreter):
    """Runs a quantized graph and keeps all bytes that it makes."""

    def __init__(self, module):
        super().__init__(module)
        self.made = []

    def run_node(self, node):
        """Run one operator."""
        result = super().run_node(node)
        if str(node.target) == QUANTIZE:
            self.made.append(result)
        return result


class WithBytes(nn.Module):
    """A quantized graph that returns all bytes behind its result."""

    def __init__(self, module):
        super().__init__()
        self.network = module

    def forward(self, x):
        run = Kept(self.network)
        return run.run(x), *run.made


class Forced(torch.fx.Interpreter):
    """Runs a quantized graph, checks the bytes that it is given, and goes on with these."""

    def __init__(self, module, given):
        super().__init__(module)
        self.given, self.ties, self.bytes = iter(given), 0, 0

    def run_node(self, node):
        """Run one operator; check what was given if it makes bytes."""
        result = super().run_node(node)
        if str(node.target) != QUANTIZE:
            return result
        given = next(self.given)
        x, scale = self.fetch_args_kwargs_from_env(node)[0][:2]
        steps = x.detach().double().numpy() / scale
        got, expected = (t.numpy().astype(int) for t in (given, result))
        tie = np.abs(steps - np.floor(steps) - 0.5) < NEAR
        assert np.abs(got - expected).max() <= 1, node
        assert (tie | (got == expected)).all(), node
        self.ties, self.bytes = self.ties + int((got != expected).sum()), self.bytes + got.size
        return given


def compared(model, x):
    """Return how many bytes of how many were ties, and both results from the same bytes."""
    module = ts.quantize(model, [x]).module()
    with torch.no_grad():
        program = torch.export.export(WithBytes(module), (x,))
    library = ts.compile(program, config=ts.Config(measure=False, tuned=False))
    result, *made = library(x)
    forced = Forced(module, made)
    with torch.no_grad():
        expected = forced.run(x)
    assert next(forced.given, None) is None
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    return forced.ties, forced.bytes


def test_a_residual_network():
    torch.manual_seed(0)
    ties, count = compared(Residual().eval(), torch.randn(1, 3, 16, 16))
    assert count > 2_000
    assert ties <= 1e-3 * count


@pytest.mark.slow
@pytest.mark.parametrize("sparsity", [0.0, 0.875])
def test_resnet18(sparsity):
    model = torchvision_model("resnet18")
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    ties, count = compared(model, torch.randn(1, 3, 224, 224))
    print(f"{ties} ties of {count} bytes")
    assert count > 2_000_000
    assert ties <= 1e-4 * count
