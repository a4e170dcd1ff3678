"""Random quantized layers: scales of tensors, features, rows; zero points, windows, epilogues."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import tvm_sparse as ts

Q = torch.ops.quantized_decomposed
LIMITS = {torch.uint8: (0, 255), torch.int8: (-128, 127)}
FUNCTIONS = {"none": lambda y: y, "relu": torch.relu, "gelu": torch.nn.functional.gelu}


@dataclass(frozen=True)
class Drawn:
    """What a layer is like."""

    window: int
    stride: int
    padding: int
    depthwise: bool
    channels: int
    features: int
    keep: float
    dtype: torch.dtype
    zero: int
    chosen: str
    by_feature: bool
    function: str
    rounds: bool
    seed: int


DRAWN = st.builds(
    Drawn,
    window=st.sampled_from([0, 0, 1, 3]),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    depthwise=st.booleans(),
    channels=st.sampled_from([3, 16, 20, 64, 70]),
    features=st.sampled_from([5, 16, 37]),
    keep=st.sampled_from([0.1, 0.5, 1.0]),
    dtype=st.sampled_from(list(LIMITS)),
    zero=st.integers(0, 127),
    chosen=st.sampled_from(["static", "tensor", "row"]),
    by_feature=st.booleans(),
    function=st.sampled_from(list(FUNCTIONS)),
    rounds=st.booleans(),
    seed=st.integers(0, 2**16),
)


class Layer(nn.Module):
    """One layer between quantization and, if it rounds, quantization."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__()
        self.drawn, window = drawn, (drawn.window,) * 2 if drawn.window else ()
        self.depthwise = drawn.depthwise and drawn.window > 0
        features = drawn.channels if self.depthwise else drawn.features
        shape = (features, 1 if self.depthwise else drawn.channels, *window)
        weight = torch.randint(-127, 128, shape) * (torch.rand(shape) < drawn.keep)
        self.register_buffer("weight", weight.to(torch.int8))
        scales = torch.rand(features) / 50 + 1e-3
        self.register_buffer("scales", scales if drawn.by_feature else scales[:1].repeat(features))
        self.register_buffer("zeros", torch.zeros(features, dtype=torch.int64))
        self.register_buffer("bias", torch.randn(features))

    def forward(self, x):
        y = FUNCTIONS[self.drawn.function](self.floats(self.meant(x)))
        if not self.drawn.rounds:
            return y
        return Q.quantize_per_tensor(y, 0.05, 20, 0, 255, torch.uint8)

    def meant(self, x):
        """Return what the bytes of ``x`` mean."""
        dtype = self.drawn.dtype
        limits = (*LIMITS[dtype], dtype)
        if self.drawn.chosen == "static":
            rest = (0.03, self.drawn.zero, *limits)
            return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *rest), *rest)
        if self.drawn.chosen == "row" and not self.drawn.window:
            rest = (*Q.choose_qparams_per_token_asymmetric(x, torch.int8), -128, 127, torch.int8)
            q = Q.quantize_per_token(x, *rest)
            return Q.dequantize_per_token(q, *rest, torch.float32)
        rest = (*Q.choose_qparams.tensor(x, *limits[:2], 1e-6, dtype), *limits)
        return Q.dequantize_per_tensor.tensor(Q.quantize_per_tensor.tensor(x, *rest), *rest)

    def floats(self, x):
        """Return the layer's result."""
        rows = (self.scales, self.zeros, 0, -127, 127, torch.int8)
        weight = Q.dequantize_per_channel(self.weight, *rows)
        if not self.drawn.window:
            return nn.functional.linear(x, weight, self.bias)
        groups = self.drawn.channels if self.depthwise else 1
        place = (self.drawn.stride, self.drawn.padding)
        return nn.functional.conv2d(x, weight, self.bias, *place, groups=groups)


def check(drawn: Drawn) -> None:
    """Compile the layer and compare it with PyTorch; rounded values may fall to either side."""
    torch.manual_seed(drawn.seed)
    model = Layer(drawn).eval()
    shape = (2, drawn.channels, 6, 5) if drawn.window else (2, 5, drawn.channels)
    x = torch.randn(shape) * 2 + 0.3
    program = torch.export.export(model, (x,))
    library = ts.compile(program, config=ts.Config(measure=False, tuned=False))
    assert any("int8" in kernel.function for kernel in library.kernels)
    assert not any("quantized" in d.reason for d in library.decisions)
    got = library(x)
    exact = FUNCTIONS[drawn.function](model.floats(model.meant(x)))
    bound = 1e-5 * max(1.0, float(exact.abs().max()))
    if not drawn.rounds:
        assert (got - exact).abs().max() <= bound
        return
    steps = (exact / 0.05 + 20).clamp(0, 255)
    assert (got - steps).abs().max() <= 0.5 + 20 * bound + 1e-3


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck])
@given(DRAWN)
def test_random_layers(drawn):
    check(drawn)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(DRAWN)
def test_many_random_layers(drawn):
    check(drawn)
