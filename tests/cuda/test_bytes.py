"""Quantized networks on GPUs: layers multiply bytes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers operators

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.quantized_networks import (
    quantized_attention,
    quantized_by_onnxruntime,
    quantized_dynamically,
)
from tvm_sparse.errors import WidenedBytesWarning
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.testing import emulate

TARGET = "cuda:sm_80"
CONFIG = ts.Config(measure=False)


def rounded(x, zero=3, dtype=torch.int8):
    """What the bytes next to ``x`` mean; steps and weights are powers of two: nothing else."""
    limits = torch.iinfo(dtype)
    q, args = torch.ops.quantized_decomposed, (0.0625, zero, limits.min, limits.max, dtype)
    return q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args)


def whole(module, scale=0.0078125):
    """The module with weights that are bytes times a power of two, and whole biases."""
    weight = torch.randint(-127, 128, module.weight.shape)
    module.weight.data = weight * scale
    if module.bias is not None:
        module.bias.data = torch.randint(-4, 5, module.bias.shape) * 0.5
    return module


class Linear(nn.Module):
    """Linear layers whose inputs are bytes, and a last one of floats."""

    def __init__(self, layers=2, dtype=torch.int8, zero=3, width=32):
        super().__init__()
        self.layers = nn.ModuleList(whole(nn.Linear(width, width)) for _ in range(layers))
        self.last, self.args = nn.Linear(width, 8), (zero, dtype)

    def forward(self, x):
        """Map ``(..., width)`` to ``(..., 8)``."""
        for layer in self.layers:
            x = torch.relu(layer(rounded(x, *self.args)))
        return self.last(x)


class Convolutions(nn.Module):
    """Windows, strides, a residual, one tap, and a last linear layer."""

    def __init__(self, depthwise=False):
        super().__init__()
        self.stem = whole(nn.Conv2d(3, 16, 3, 2, 1))
        self.body = whole(nn.Conv2d(16, 16, 3, 1, 1, groups=16 if depthwise else 1))
        self.wide, self.head = whole(nn.Conv2d(16, 24, 1)), whole(nn.Linear(24, 5))

    def forward(self, x):
        """Map ``(batch, 3, rows, columns)`` to ``(batch, 5)``."""
        x = torch.relu(self.stem(rounded(x)))
        x = torch.relu(x + self.body(rounded(x, 0)))
        return self.head(rounded(self.wide(rounded(x, -128)).amax((2, 3))))


def compiled(model, x, target=TARGET, config=CONFIG, **options):
    program = torch.export.export(model.eval(), (x,), **options)
    return ts.compile(program, target=target, config=config)


def assert_as_on_cpus(model, x, library=None, **options):
    """Fail unless the executed PTX gives what the code for CPUs does, bit by bit."""
    library = library or compiled(model, x, **options)
    emulation = emulate(library, x.numpy())
    assert not emulation.report.findings
    expected = compiled(model, x, "cpu")(x)
    np.testing.assert_array_equal(emulation.outputs[0], expected.detach().numpy())
    with torch.no_grad():
        np.testing.assert_allclose(emulation.outputs[0], model(x).numpy(), rtol=1e-5, atol=1e-5)
    return library


@needs_nvrtc
@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
@pytest.mark.parametrize(("dtype", "zero"), [(torch.int8, 3), (torch.uint8, 128)])
def test_layers_multiply_bytes(dtype, zero):
    torch.manual_seed(0)
    library = assert_as_on_cpus(Linear(dtype=dtype, zero=zero), torch.randn(4, 32))
    reasons = {d.layer: d.reason for d in library.decisions}
    assert "bytes on tensor cores, sums of int32" in reasons["layers.0"]
    assert "bytes" not in reasons["last"]
    assert not library.decisions.in_floats
    name = str(dtype).removeprefix("torch.")
    kernels = {k.layer: k for k in library.kernels if k.layer}
    assert kernels["layers.0"].rule == kernels["layers.1"].rule == "TileBytes"
    assert f"linear_dense_{name}" in kernels["layers.1"].function
    assert "quantized" in kernels["layers.0"].function, "its bytes are stored, not floats"


@needs_nvrtc
@pytest.mark.grid
@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
@pytest.mark.parametrize("shape", [(1, 3, 11, 9), (3, 3, 8, 16)])
def test_convolutions_multiply_bytes(shape):
    torch.manual_seed(0)
    library = assert_as_on_cpus(Convolutions(), torch.randn(shape))
    assert {k.rule for k in library.kernels if k.layer} == {"TileBytes"}


@needs_nvrtc
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_any_number_of_rows(rows):
    torch.manual_seed(0)
    model, dim = Linear().eval(), torch.export.Dim("rows", min=1, max=64)
    library = compiled(model, torch.randn(7, 32), dynamic_shapes={"x": {0: dim}})
    assert_as_on_cpus(model, torch.randn(rows, 32), library)


@needs_nvrtc
@pytest.mark.grid
@pytest.mark.parametrize("items", [1, 3])
def test_any_number_of_images(items):
    torch.manual_seed(0)
    model, dim = Convolutions().eval(), torch.export.Dim("items", min=1, max=8)
    open_, x = {"dynamic_shapes": {"x": {0: dim}}}, torch.randn(2, 3, 9, 9)
    library, on_cpus = compiled(model, x, **open_), compiled(model, x, "cpu", **open_)
    x = torch.randn(items, 3, 9, 9)
    emulation = emulate(library, x.numpy())
    assert not emulation.report.findings
    np.testing.assert_array_equal(emulation.outputs[0], on_cpus(x).detach().numpy())


@needs_nvrtc
def test_what_is_no_number_becomes_the_byte_that_cpus_make_of_it():
    torch.manual_seed(0)
    x = torch.randn(4, 32)
    x[0, 0], x[1, 3], x[2, 5], x[3, 1] = np.nan, np.inf, -np.inf, 1e30
    model = Linear()
    emulation, on_cpus = emulate(compiled(model, x), x.numpy()), compiled(model, x, "cpu")
    np.testing.assert_array_equal(emulation.outputs[0], on_cpus(x).detach().numpy())


@needs_nvrtc
@pytest.mark.grid
@pytest.mark.parametrize("format", ["dense", "balanced"])
def test_pruned_layers(format):
    torch.manual_seed(0)
    model = Linear(width=64)
    for layer in model.layers:
        kept = Balanced(16, 4).project(np.random.default_rng(0).random((64, 64), np.float32))
        layer.weight.data *= torch.from_numpy(kept)
    config = ts.Config(measure=False, force={"layers.*": format})
    library = compiled(model, torch.randn(20, 64), config=config)
    assert [d.chosen for d in library.decisions][:2] == [format] * 2
    assert_as_on_cpus(model, torch.randn(20, 64), library)


@pytest.mark.parametrize("format", ["block", "two_four"])
def test_formats_that_bytes_have_not_are_refused_by_name(format):
    model = Linear(width=64)
    for layer in model.layers:
        layer.weight.data[:, ::2] = 0
    config = ts.Config(measure=False, force={"layers.*": format})
    with pytest.raises(ts.errors.InputError, match=f"{format}: "):
        compiled(model, torch.randn(20, 64), config=config)


@needs_nvrtc
@pytest.mark.grid(3)
@pytest.mark.parametrize(
    "network",
    [
        lambda folder: quantized_by_onnxruntime(folder, "QUInt8"),
        lambda folder: quantized_by_onnxruntime(folder, "QInt8"),
        lambda folder: quantized_by_onnxruntime(folder, "QUInt8", "QOperator"),
        quantized_dynamically,
        lambda folder: quantized_attention(folder, "QUInt8"),
    ],
    ids=["QDQ, uint8", "QDQ, int8", "QOperator", "dynamic", "attention"],
)
def test_networks_of_onnxruntime(network, tmp_path):
    """Next to what the code for CPUs gives, which tests hold to onnxruntime's own bytes."""
    path = str(network(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WidenedBytesWarning)  # one is depthwise
        library = ts.compile(path, target=TARGET, config=CONFIG)
    on_cpus = ts.compile(path, config=CONFIG)
    (shape,) = (spec.shape for spec in on_cpus.inputs)
    x = np.random.default_rng(0).standard_normal(tuple(map(int, shape))).astype(np.float32)
    emulation, expected = emulate(library, x), np.asarray(on_cpus(x))
    assert not emulation.report.findings
    # Products are fused with sums on GPUs: a number next to a half may become the other byte.
    np.testing.assert_allclose(emulation.outputs[0], expected, atol=0.05 * np.abs(expected).max())
    assert any("TileBytes" in str(k.rule) for k in library.kernels)
