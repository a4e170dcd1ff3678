"""Quantized layers in a module: one kernel each, and the values of NumPy or onnxruntime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
import tvm
from torch import nn
from tvm import relax, tirx

import tvm_sparse as ts
from tests.integers import as_integers, bytes_of, sparse_bytes
from tests.kernels import host
from tests.quantized_networks import (
    assert_near_onnxruntime,
    by_onnxruntime,
    quantized_by_onnxruntime,
    quantized_dynamically,
    with_float_weights,
    with_unsigned_weights,
)
from tvm_sparse.base.config import Config
from tvm_sparse.base.memory import argument_of
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.passes.bytes.quantization import dequantize, quantize
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.passes.pipeline import finalise, lower, schedule
from tvm_sparse.schedules.build import build_context
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions

LINEAR = as_integers(Contraction((5,), 64, 37), "uint8", 130)
RNG = np.random.default_rng(0)
STEPS = RNG.uniform(0.01, 0.03, 37).astype(np.float32)
SIZE = 0.01
FACTORS = STEPS * SIZE
BIAS = RNG.standard_normal(37, np.float32)


def compiled(c, matrix, build, *others, format=None):
    """Return the kernels of a layer and a function that runs it on ``x`` and ``others``.

    ``build`` gets the builder, the layer's result in floats and the others.
    """
    config = Config(measure=False, force={"*": format} if format else {})
    chooser = Chooser(host(), config, Decisions())
    builder = relax.BlockBuilder()
    taps = len(c.taps)
    lead = [tirx.Var("n", "int64") if not isinstance(e, int) else e for e in c.input_shape]
    x = relax.Var("x", relax.TensorType(lead, c.dtype))
    more = [
        relax.Var(f"y{i}", relax.TensorType(o.shape, o.dtype.name)) for i, o in enumerate(others)
    ]
    weight = (matrix * STEPS[:, None]).astype(np.float32)
    with builder.function("main", [x, *more]):
        with builder.dataflow():
            means = builder.emit(dequantize(x, Scale(c.dtype, SIZE, c.zero_point)))
            if taps:
                kernel = constant(weight.reshape(c.features, *c.taps, -1), "fc.weight")
                layer = relax.op.nn.conv2d(means, kernel, c.strides, 0, data_layout="NHWC",
                                           kernel_layout="OHWI", out_layout="NHWC")  # fmt: skip
            else:
                layer = relax.op.matmul(
                    means, constant(np.ascontiguousarray(weight.T), "fc.weight")
                )
            out = builder.emit_output(build(builder, builder.emit(layer), *more))
        builder.emit_func_output(out)
    packed = {}
    passes = [*lower(chooser), *schedule(host(), packed)]
    with host():
        module = tvm.transform.Sequential(passes)(builder.finalize())
    kernels = [f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc)]
    with build_context(host()):
        done = tvm.transform.Sequential(finalise(host()))(module)
        machine = relax.VirtualMachine(tvm.compile(done, host(), relax_pipeline=None), tvm.cpu())
    weights = [argument_of(value) for value in packed.values()]
    return kernels, lambda *a: machine["main"](*map(tvm.runtime.tensor, a), *weights).numpy()


def stored(builder, y, scale):
    """Emit ``y`` as the bytes of ``scale``."""
    steps = builder.emit(relax.op.multiply(y, relax.const(1 / scale.scale, "float32")))
    return quantize(steps, scale.zero_point, scale.dtype)


def saturated(steps, scale):
    low, high = scale.limits
    return np.clip(np.rint(steps) + scale.zero_point, low, high)


def assert_bytes(got, steps, scale):
    """Check bytes against exact steps: where these are next to a half, either side will do."""
    near = np.abs(steps - np.floor(steps) - 0.5) < 1e-3
    expected = saturated(steps, scale)
    assert got.dtype == scale.dtype
    assert (np.abs(got.astype(int) - expected) <= near).all()
    assert near.mean() < 0.05


@pytest.mark.parametrize("format", ["dense", "balanced"])
@pytest.mark.parametrize("output", [Scale("uint8", 0.03, 128), Scale("int8", 0.011, -3)])
def test_a_layer_is_one_kernel(format, output):
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.8)

    def build(builder, y):
        return stored(builder, builder.emit(relax.op.add(y, relax.const(BIAS))), output)

    kernels, run = compiled(LINEAR, matrix, build, format=format)
    assert len(kernels) == 1
    x = bytes_of(RNG, LINEAR)
    steps = (reference(LINEAR, x, matrix) * FACTORS + BIAS) / output.scale
    assert_bytes(run(x), steps, output)


def test_results_saturate_at_both_ends():
    matrix = np.full(LINEAR.matrix_shape, 127, np.int8)
    output = Scale("uint8", 1e-3, 7)
    _, run = compiled(LINEAR, matrix, lambda b, y: stored(b, y, output), format="dense")
    assert (run(np.zeros(LINEAR.input_shape, np.uint8)) == 0).all()
    assert (run(np.full(LINEAR.input_shape, 255, np.uint8)) == 255).all()


def test_residual_and_activation_are_in_the_same_kernel():
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.5)
    means, output = Scale("uint8", 0.02, 100), Scale("uint8", 0.03, 0)
    other = RNG.integers(0, 256, LINEAR.output_shape, np.uint8)

    def build(builder, y, residual):
        y = builder.emit(relax.op.add(y, relax.const(BIAS)))
        total = builder.emit(relax.op.add(y, builder.emit(dequantize(residual, means))))
        return stored(builder, builder.emit(relax.op.nn.relu(total)), output)

    kernels, run = compiled(LINEAR, matrix, build, other)
    assert len(kernels) == 1
    x = bytes_of(RNG, LINEAR)
    value = reference(LINEAR, x, matrix) * FACTORS + BIAS + (other.astype(float) - 100) * 0.02
    assert_bytes(run(x, other), np.maximum(value, 0) / 0.03, output)


def test_floats_may_leave():
    matrix = sparse_bytes(RNG, LINEAR.matrix_shape, 0.5)
    kernels, run = compiled(LINEAR, matrix, lambda b, y: y)
    assert len(kernels) == 1
    x = bytes_of(RNG, LINEAR)
    np.testing.assert_allclose(run(x), reference(LINEAR, x, matrix) * FACTORS, rtol=1e-6, atol=1e-6)


def test_convolutions():
    c = as_integers(Contraction((1, 4, 4), 32, 37, (3, 3), (2, 2), (1, 1), (9, 9)), "int8", -20)
    matrix, output = sparse_bytes(RNG, c.matrix_shape, 0.9), Scale("int8", 0.02, 5)
    kernels, run = compiled(c, matrix, lambda b, y: stored(b, y, output))
    assert len(kernels) == 1
    x = bytes_of(RNG, c)
    assert_bytes(run(x), reference(c, x, matrix) * FACTORS / 0.02, output)


def test_any_number_of_rows():
    c = replace(LINEAR, lead=(tirx.Var("n", "int64"),))
    matrix = sparse_bytes(RNG, c.matrix_shape, 0.8)
    _, run = compiled(c, matrix, lambda b, y: y, format="balanced")
    for rows in (1, 4, 21):
        static = replace(c, lead=(rows,))
        x = bytes_of(RNG, static)
        expected = reference(static, x, matrix) * FACTORS
        np.testing.assert_allclose(run(x), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("activation", "form"),
    [
        ("QUInt8", "QDQ"),
        pytest.param("QInt8", "QDQ", marks=pytest.mark.slow),
        ("QUInt8", "QOperator"),
    ],
)
def test_networks_of_onnxruntime(tmp_path, activation, form):
    path = quantized_by_onnxruntime(tmp_path, activation, form)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    x = RNG.standard_normal((1, 3, 24, 24), np.float32)
    assert_near_onnxruntime(path, library, x)
    layers = [k for k in library.kernels if k.layer]
    assert len(layers) == 7
    assert all("int8" in k.function for k in layers)
    assert not [k.function for k in library.kernels[1:] if "transpose" in k.function]
    assert "dense" not in {d.chosen for d in library.decisions if d.sparsity > 0.5}


def test_networks_whose_scales_onnxruntime_finds_when_they_run(tmp_path):
    path = quantized_dynamically(tmp_path)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    x = RNG.standard_normal((1, 3, 24, 24), np.float32)
    np.testing.assert_allclose(library(x), by_onnxruntime(path, x), rtol=1e-5, atol=1e-5)
    layers = [k for k in library.kernels if k.layer]
    assert len(layers) == 7
    assert all("uint8" in k.function for k in layers)


def test_weights_that_the_graph_quantizes_are_integers(tmp_path):
    path = tmp_path / "float_weights.onnx"
    onnx.save(with_float_weights(), path)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    x = RNG.standard_normal((1, 16, 12, 12), np.float32)
    assert_near_onnxruntime(path, library, x)
    assert [k.layer for k in library.kernels if "uint8" in k.function] == ["w0", "w1"]
    assert "dense" not in {d.chosen for d in library.decisions}
    assert {row.precision for row in ts.inspect(path).rows} == {"int8"}


@pytest.mark.grid
@pytest.mark.parametrize(("form", "zero"), [("QOperator", 117), ("QDQ", 140), ("QDQ", 0)])
def test_weights_above_any_zero_point_are_integers(form, zero, tmp_path):
    path = tmp_path / "unsigned.onnx"
    onnx.save(with_unsigned_weights(form, zero), path)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False, cache=False))
    x = RNG.standard_normal((2, 16, 6, 7), np.float32)
    assert_near_onnxruntime(path, library, x)
    layers = {d.layer: d for d in library.decisions}
    assert {"w0", "w0.rest", "w1", "w1.rest"} <= set(layers)
    assert all("uint8" in k.function for k in library.kernels if k.layer)
    assert layers["w0"].sparsity > 0.7 < layers["w0.rest"].sparsity


def test_sums_that_are_no_bytes_stay_as_the_model_has_them():
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer(
                "weight", torch.arange(-600, 600, dtype=torch.int32).reshape(30, 40)
            )

        def forward(self, x):
            return (x.to(torch.int32) - 7) @ self.weight

    x = torch.randint(0, 256, (4, 30), dtype=torch.uint8)
    library = ts.compile(
        torch.export.export(Wide(), (x,)), config=ts.Config(measure=False, tuned=False)
    )
    assert torch.equal(library(x), Wide()(x))
    (decision,) = library.decisions
    assert "beyond 255" in decision.reason or "int32" in decision.reason


def test_layers_between_floats_stay_float():
    torch.manual_seed(0)
    program = torch.export.export(HalfQuantized().eval(), (torch.randn(4, 32),))
    library = ts.compile(program, config=ts.Config(measure=False, tuned=False))
    reasons = {d.layer: d.reason for d in library.decisions}
    assert list(reasons) == ["a", "b", "c"]
    assert "whole multiples" in reasons["a"]
    assert "quantized" not in reasons["b"] + reasons["c"]
    x = torch.randn(4, 32)
    torch.testing.assert_close(library(x), program.module()(x), rtol=1e-5, atol=1e-6)


class HalfQuantized(nn.Module):
    """A quantized input of float weights, a float layer, and a weight that alone is quantized."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(32, 32) for _ in range(3))
        self.register_buffer("scales", torch.full((32,), 0.01))
        self.register_buffer("zeros", torch.zeros(32, dtype=torch.int64))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        args = (0.02, 3, -128, 127, torch.int8)
        x = q.dequantize_per_tensor(q.quantize_per_tensor(x, *args), *args)
        rows = (self.scales, self.zeros, 0, -128, 127, torch.int8)
        weight = q.dequantize_per_channel(q.quantize_per_channel(self.c.weight, *rows), *rows)
        return torch.nn.functional.linear(self.b(self.a(x)), weight)
