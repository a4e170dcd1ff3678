"""TabulateBytes: which functions of bytes become tables, and that these are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as f

from tests.frontends.running import run
from tests.kernels import host
from tests.passes.modules import operators
from tests.passes.test_fuse_quantization import lowered, meant, quantized
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.passes.bytes.tabulate_bytes import TabulateBytes

X = torch.arange(256, dtype=torch.uint8).repeat(3).reshape(3, 256)


def tabulated(function, *inputs):
    """Return the model of ``function``, and the operators that the pass leaves of it."""
    module = nn.Module()
    module.forward = function
    model = from_exported(torch.export.export(module, inputs))
    return model, operators(TabulateBytes(machine_of(host()))(lowered(model)))


def again(x, scale=0.004, zero=0):
    return meant(quantized(x, scale, zero), scale, zero)


FUNCTIONS = {
    "gelu": lambda q: quantized(f.gelu(meant(q) * 2)),
    "sigmoid": lambda q: quantized(torch.sigmoid(meant(q)), 1 / 256, 0),
    "to signed bytes": lambda q: quantized(torch.tanh(meant(q)), 0.01, -7, -128, 127, torch.int8),
    "rounded twice": lambda q: quantized(again(torch.sigmoid(meant(q))) * 3 + 0.01),
    "silu": lambda q: quantized(again(torch.sigmoid(meant(q))) * meant(q)),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_a_byte_are_tables(name):
    model, found = tabulated(FUNCTIONS[name], X)
    assert set(found) == {"call_tir"}
    got, expected = run(model, X)[0], FUNCTIONS[name](X).numpy()
    difference = np.abs(got.astype(int) - expected.astype(int))
    assert difference.max() <= 1  # of ties
    assert (difference > 0).mean() < 0.01


def _gated(q, y):
    """Make bytes of ``q`` and ``y``, and gate what ``q`` means by them: no function of these."""
    half = meant(q) * 0.5
    return quantized(torch.sigmoid(again(half + y, 0.02, 7)) * half)


OTHERS = {
    "cheap": (lambda q: quantized(torch.relu(meant(q)) * 0.3), (X,)),
    "of two": (lambda q, r: quantized(torch.sigmoid(meant(q) + meant(r))), (X, X.flip(0))),
    "of its input and of another": (_gated, (X, torch.randn(3, 256))),
    "small": (lambda q: quantized(torch.sigmoid(meant(q))), (X[:1, :40],)),
    "broadcast": (lambda q: quantized(torch.sigmoid(meant(q)) + torch.zeros(2, 1, 1)), (X,)),
    "of floats": (lambda x: quantized(torch.sigmoid(x)), (torch.randn(3, 256),)),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name):
    function, inputs = OTHERS[name]
    model, found = tabulated(function, *inputs)
    assert "call_tir" not in found
    assert found["quantize"] >= 1
    got, expected = run(model, *inputs)[0], function(*inputs).numpy()
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1


def test_a_table_of_a_table_is_one_look_up():
    """SiLU as exporters quantize it: the inner table is left with nothing to do."""
    q = torch.randint(0, 256, (1, 16, 8, 8), dtype=torch.uint8)
    _, found = tabulated(FUNCTIONS["silu"], q)
    assert found["call_tir"] == 1
