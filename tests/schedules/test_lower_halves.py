"""bfloat16 on CPUs: each operator's result is the one of single precision, rounded."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn
from tvm import te, tirx

import tvm_sparse as ts
from tests.kernels import run
from tvm_sparse.ops import ieee

CONFIG = ts.Config(measure=False)
HALF = "bfloat16"
SINGLE = "float32"

ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "leaky_relu": lambda x: nn.functional.leaky_relu(x, 0.1),
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "clamp": lambda x: x.clamp(-0.5, 1),
}


class Behind(nn.Module):
    """Layers of one type behind activations of the other."""

    def __init__(self, dtype) -> None:
        super().__init__()
        self.dense, self.conv = nn.Linear(9, 17).to(dtype), nn.Conv2d(8, 16, 3).to(dtype)

    def forward(self, x):
        rows = [self.dense(f(x).to(self.dense.weight.dtype)) for f in ACTIVATIONS.values()]
        return (*rows, self.conv(torch.relu(x).to(self.dense.weight.dtype)))


@pytest.mark.grid
@pytest.mark.parametrize("down", [True, False])
def test_layers_behind_casts(down):
    torch.manual_seed(0)
    inner, outer = (torch.bfloat16, torch.float32) if down else (torch.float32, torch.bfloat16)
    module, x = Behind(inner).eval(), torch.randn(1, 8, 9, 9).to(outer)
    with torch.no_grad():
        expected = module(x)
    got = ts.compile(module, (x,), config=CONFIG)(x)
    near = {"rtol": 2**-7, "atol": 2**-7} if down else {"rtol": 1e-5, "atol": 1e-5}
    for name, found, wanted in zip([*ACTIVATIONS, "conv"], got, expected, strict=True):
        assert found.dtype == inner
        torch.testing.assert_close(found, wanted, **near, msg=lambda m, name=name: f"{name}: {m}")


class Casts(nn.Module):
    """Functions of single precision between casts of either direction."""

    def forward(self, x, half):
        wide = half.float()
        return (
            torch.relu(x).to(torch.bfloat16),
            torch.relu(wide),
            wide.clamp(-1, 1),
            torch.maximum(wide, (half * 2).float()),
            x.to(torch.bfloat16).float(),
            (x * 3).to(torch.bfloat16).float() + 1,
            half + half * half,
            torch.where(half > 0.5, half, -half),
            # Kernels with tensors of bfloat16 of their own.
            torch.relu(nn.functional.max_pool2d(half.reshape(1, 8, 8), 3, 2, 1).float()),
            nn.functional.adaptive_max_pool2d(half.reshape(1, 8, 8), 3).float().clamp(-1, 1),
            torch.relu(half.cummax(0).values.float()),
        )


def special():
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-40, 1.00390625, 1.01171875]
    ordinary = np.random.default_rng(0).standard_normal(54) * 3
    return torch.tensor(np.concatenate([values, ordinary]), dtype=torch.float32)


def test_casts_are_those_of_pytorch():
    x = special()
    half = x.flip(0).to(torch.bfloat16)
    got = ts.compile(Casts(), (x, half), config=CONFIG)(x, half)
    for found, expected in zip(got, Casts()(x, half), strict=True):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        signs = torch.signbit(found) == torch.signbit(expected)
        assert (signs | expected.isnan()).all()


def test_every_sort_of_nan_stays_one():
    bits = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF800001, 0x7FC00000], np.uint32)
    x = te.placeholder((5,), SINGLE)
    func = te.create_prim_func([x, te.compute((5,), lambda i: (x(i) * 1.0).astype(HALF))])
    assert np.isnan(run(func, [bits.view(SINGLE)], (5,), dtype=HALF).astype(SINGLE)).all()


def test_operators_that_networks_do_not_have_round_too():
    a, b = (te.placeholder((16,), HALF) for _ in range(2))

    def each(i):
        chosen = tirx.if_then_else(i < 8, a(i), tirx.const(0.1, HALF))
        return ieee.let(tirx.Cast(SINGLE, chosen - b(i)), lambda v: tirx.exp(v * v)).astype(HALF)

    func = te.create_prim_func([a, b, te.compute((16,), each)])
    x, y = np.random.default_rng(1).standard_normal((2, 16)).astype(ml_dtypes.bfloat16)
    chosen = np.where(np.arange(16) < 8, x, ml_dtypes.bfloat16(0.1))
    expected = np.exp((chosen - y).astype(SINGLE) ** 2).astype(ml_dtypes.bfloat16)
    got = run(func, [x, y], (16,), dtype=HALF)
    np.testing.assert_allclose(got.astype(SINGLE), expected.astype(SINGLE), rtol=2**-7)


class Filled(nn.Module):
    """Constants of one type, as results, beside an input, and rounded."""

    def forward(self, x):
        zeros = torch.zeros(8, 33, dtype=torch.bfloat16)
        beside = torch.cat([torch.full((4, 64), 0.3, dtype=torch.bfloat16), x], 1)
        return zeros, beside, torch.full((2, 16), 0.7).to(torch.bfloat16)


def test_constants():
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    found, expected = ts.compile(Filled(), (x,), config=CONFIG)(x), Filled()(x)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.isa("avx512bf16", "avx512vbmi")
def test_recurrent_layers_begin_with_zeros():
    layer, x = nn.LSTM(32, 32).eval(), torch.randn(3, 1, 32)
    library = ts.compile(layer, (x,), precision="bfloat16", config=CONFIG)
    expected, _ = layer(x)
    torch.testing.assert_close(library(x)[0], expected, atol=0.02, rtol=0.02)
