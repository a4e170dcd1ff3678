"""Networks in half precision whose layers are quantized: products are of bytes, behind casts."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnx.helper
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.test_bytes import CONFIG, TARGET, assert_as_on_cpus, compiled, rounded, whole
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import WidenedBytesWarning

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
RNG = np.random.default_rng(0)


class Halves(nn.Module):
    """Layers of halves between floats."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def meant(self, x, zero=3):
        """What the bytes next to ``x`` mean, in half precision."""
        return rounded(x.float(), zero).to(self.dtype)


class Network(Halves):
    """Windows, a pooling and pieces between cast and layer, and a linear layer."""

    def __init__(self, dtype, groups=1):
        super().__init__(dtype)
        self.stem = whole(nn.Conv2d(8, 8, 3, 1, 1), 2.0**-10)
        self.body = whole(nn.Conv2d(16, 16, 3, 1, 1, groups=groups), 2.0**-10)
        self.head = whole(nn.Linear(16, 5))
        self.to(dtype)

    def forward(self, x):
        """Map ``(batch, 8, rows, columns)`` to ``(batch, 5)``."""
        x = torch.relu(self.stem(self.meant(x)))
        x = torch.cat([torch.max_pool2d(self.meant(x), 2), self.meant(x)[:, :, ::2, ::2]], 1)
        return self.head(self.meant(self.body(x).amax((2, 3)))).float()


@needs_nvrtc
@HALVES
@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
def test_layers_multiply_bytes(dtype):
    torch.manual_seed(0)
    library = assert_as_on_cpus(Network(dtype), torch.randn(2, 8, 8, 6))
    assert {k.rule for k in library.kernels if k.layer} == {"TileBytes"}


@HALVES
def test_so_they_do_on_cpus(dtype):
    library = compiled(Network(dtype), torch.randn(2, 8, 8, 6), "cpu")
    assert all("int8" in k.function for k in library.kernels if k.layer)
    assert not any("multiplied in" in d.reason for d in library.decisions)


def test_layers_in_groups_are_told():
    with pytest.warns(WidenedBytesWarning, match=r"convolutions in groups .*: body; "):
        library = compiled(Network(torch.float16, 16), torch.randn(2, 8, 8, 6))
    (body,) = (d for d in library.decisions if d.layer == "body")
    assert "float16, though its input is quantized" in body.reason


class Products(Halves):
    """A product of two activations."""

    def forward(self, x):
        """Map ``(batch, rows, columns)`` to ``(batch, rows, rows)``."""
        return (self.meant(x) @ self.meant(x, 0).transpose(1, 2)).float()


@HALVES
def test_products_of_activations_are_told_and_multiply_bytes_on_cpus(dtype):
    x = torch.randn(2, 5, 16)
    with pytest.warns(WidenedBytesWarning, match="products of two activations"):
        compiled(Products(dtype), x)
    library = compiled(Products(dtype), x, "cpu")
    assert any("matmul_int8" in k.function for k in library.kernels)
    np.testing.assert_array_equal(library(x), Products(dtype)(x))


def test_weights_that_are_no_bytes_are_told():
    model = Network(torch.float16)
    model.body.weight.data = torch.randn_like(model.body.weight)
    library = compiled(model, torch.randn(2, 8, 8, 6))
    (body,) = (d for d in library.decisions if d.layer == "body")
    assert "float16, though its input is quantized: weights are no whole mult" in body.reason


def exported(scale_of_halves):
    """A file of two layers of halves: scales are halves, or of floats with casts behind them."""
    f16 = onnx.TensorProto.FLOAT16
    scale = np.float16 if scale_of_halves else np.float32
    weights = {"s": scale(0.0371), "z": np.int8(5), "zw": np.zeros(24, np.int8)}
    nodes = [node("Cast", "x", "y0", to=f16)]
    for i in range(2):
        weights |= {
            f"w{i}": RNG.integers(-127, 128, (24, 24), np.int8),
            f"s{i}": RNG.uniform(1e-4, 1e-3, 24).astype(scale),
            f"b{i}": RNG.standard_normal(24).astype(np.float16),
        }
        last = "" if scale_of_halves else "f"
        nodes += [
            *([] if scale_of_halves else [node("Cast", f"y{i}", f"y{i}f", to=1)]),
            node("QuantizeLinear", f"y{i}{last} s z", f"q{i}"),
            node("DequantizeLinear", f"q{i} s z", f"d{i}{last}"),
            node("DequantizeLinear", f"w{i} s{i} zw", f"v{i}{last}", axis=0),
            *([] if scale_of_halves else [node("Cast", f"d{i}f", f"d{i}", to=f16)]),
            *([] if scale_of_halves else [node("Cast", f"v{i}f", f"v{i}", to=f16)]),
            node("Gemm", f"d{i} v{i} b{i}", f"y{i + 1}", transB=1),
        ]
    nodes.append(node("Cast", "y2", "y", to=1))
    return graph(nodes, {"x": (7, 24)}, ["y"], weights)


@pytest.mark.parametrize("scale_of_halves", [False, True], ids=["casts", "scales of halves"])
@pytest.mark.parametrize("target", ["cpu", TARGET])
def test_files(scale_of_halves, target, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(exported(scale_of_halves), path)
    with warnings.catch_warnings(action="error", category=WidenedBytesWarning):
        library = ts.compile(str(path), target=target, config=CONFIG)
    assert all("_int8" in k.function for k in library.kernels if k.layer)
    if target == "cpu":
        x = RNG.standard_normal((7, 24)).astype(np.float32)
        expected = onnx.reference.ReferenceEvaluator(str(path)).run(None, {"x": x})[0]
        np.testing.assert_allclose(library(x), expected, rtol=0.01, atol=0.02)
