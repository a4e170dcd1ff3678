"""Magnitudes: a bound holds whatever the inputs are, and there is none where that is not known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import module
from tvm_sparse.ops.bytes import quantize as ops
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.passes.bytes import read_bytes
from tvm_sparse.passes.bytes.magnitudes import Magnitudes
from tvm_sparse.passes.bytes.quantization import dequantize


def largest(body, *shapes):
    """Return the bound of the result of ``body`` of inputs of ``shapes``."""
    mod = module(body, *shapes)
    return Magnitudes(mod).of(mod["main"].body.body)


def emit(call):
    return relax.BlockBuilder.current().emit(call)


def bytes_of(x):
    return emit(relax.op.astype(x, "uint8"))


@pytest.mark.parametrize(("dtype", "most"), [("int32", 2.0**31), ("uint8", 255), ("int8", 128)])
def test_integers_are_bounded_by_their_type(dtype, most):
    def body(x):
        whole = emit(relax.op.astype(emit(relax.op.astype(x, dtype)), "float32"))
        scaled = emit(relax.op.multiply(whole, relax.const(np.full(8, -0.5, np.float32))))
        return relax.op.add(scaled, relax.const(np.full(8, -3.0, np.float32)))

    assert largest(body, (3, 8)) == 0.5 * most + 3


def test_what_bytes_mean_is_bounded():
    def body(x):
        return dequantize(bytes_of(x), Scale("uint8", 0.25, 3))

    assert largest(body, (3, 8)) == (255 + 3) * 0.25


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e35])
def test_what_overflows_has_no_bound(value):
    def body(x):
        steps = emit(relax.op.astype(bytes_of(x), "float32"))
        return relax.op.multiply(steps, relax.const(value, "float32"))

    assert largest(body, (3, 8)) == np.inf


def test_inputs_and_other_operators_have_no_bound():
    assert largest(relax.op.nn.relu, (3, 8)) == np.inf
    assert largest(lambda x: relax.op.exp(emit(relax.op.tanh(x))), (3, 8)) == np.inf
    assert largest(lambda x: relax.op.negative(emit(relax.op.sigmoid(x))), (3, 8)) == np.inf


def test_narrow_floats_overflow_earlier():
    def body(x):
        half = emit(relax.op.astype(emit(relax.op.astype(x, "int32")), "float16"))
        return relax.op.astype(half, "float32")

    assert largest(body, (3, 8)) == np.inf


def test_long_chains():
    def body(x):
        y = emit(relax.op.astype(bytes_of(x), "float32"))
        for _ in range(3000):
            y = emit(relax.op.negative(y))
        return relax.op.negative(y)

    assert largest(body, (3, 8)) == 255


class Residual(nn.Module):
    """A layer, a layer that is added, and one behind."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 64, 1), nn.Conv2d(64, 64, 1)
        self.third = nn.Conv2d(64, 128, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return self.third(torch.relu(self.second(y) + y))


@pytest.mark.grid
@pytest.mark.parametrize("size", [7, 12])
def test_bounded_layers_have_the_bytes_of_others(size, monkeypatch):
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(1, 16, size, size)
    quantized = ts.quantize(model, [(x,), (-x,)])
    config, made = ts.Config(measure=False, tuned=False), []

    def counted(*args, **options):
        made.append(options["bound"])
        return ops.quantized(*args, **options)

    monkeypatch.setattr(read_bytes, "quantized", counted)
    fast = ts.compile(quantized, (x,), config=config)
    # One of them is a sum's; the last one's are floats.
    assert [bound < ops.BOUND for bound in made] == [True, True]
    monkeypatch.setattr(read_bytes.Magnitudes, "of", lambda *_: math.inf)
    slow = ts.compile(quantized, (x,), config=config)
    assert len(made) == 2
    inputs = [x, -x, 100 * x, torch.full_like(x, torch.nan), torch.full_like(x, torch.inf)]
    for given in inputs:
        np.testing.assert_array_equal(fast(given).numpy(), slow(given).numpy())
