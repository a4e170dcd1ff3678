"""Attention whose operands are quantized multiplies bytes, as onnxruntime's quantizer asks."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tests.quantized_networks import assert_near_onnxruntime, quantized_attention, typed
from tvm_sparse.errors import WidenedBytesWarning

FAST = ts.Config(measure=False)
RNG = np.random.default_rng(3)
SCALES = {"a": np.float32(0.02), "b": np.float32(0.03)}


def kernels(library):
    return " ".join(kernel.function for kernel in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("activation", "form"),
    [
        ("QUInt8", "QDQ"),
        pytest.param("QInt8", "QDQ", marks=pytest.mark.slow),
        ("QUInt8", "QOperator"),
        ("QInt8", "QOperator"),
    ],
)
def test_attention_is_that_of_onnxruntime(tmp_path, activation, form):
    path = quantized_attention(tmp_path, activation, form)
    library = ts.compile(path, config=FAST)
    assert kernels(library).count("matmul_") == 2
    assert "pack_bytes" in kernels(library)
    assert_near_onnxruntime(path, library, RNG.standard_normal((1, 19, 24), np.float32))


def numbers(zeros, types):
    """Return the scales and zero points of both operands."""
    parts = {f"{n}_scale": scale for n, scale in SCALES.items()}
    return parts | {f"{n}_zero": np.array(z, t) for n, z, t in zip("ab", zeros, types, strict=True)}


def product(folder, shapes, zeros, types, *, quantized="ab"):
    """Write ``Y = A B``, of which the operands in ``quantized`` are."""
    parts = numbers(zeros, types)
    nodes = []
    for name in quantized:
        scale = f"{name}_scale {name}_zero"
        nodes.append(node("QuantizeLinear", f"{name} {scale}", f"{name}_q"))
        nodes.append(node("DequantizeLinear", f"{name}_q {scale}", f"{name}_d"))
    operands = [f"{n}_d" if n in quantized else n for n in "ab"]
    nodes.append(node("MatMul", " ".join(operands), "y"))
    model = graph(nodes, dict(zip("ab", shapes, strict=True)), ["y"], parts, opset=17)
    typed(model, len(shapes[0]))
    path = folder / "product.onnx"
    onnx.save(model, path)
    return path


def steps(x, name, zero, dtype):
    """Return the integers that count, as int64."""
    limits = np.iinfo(dtype)
    q = np.clip(np.rint(x / SCALES[name]) + zero, limits.min, limits.max)
    return q.astype(np.int64) - zero


ZERO_POINTS = [
    (("uint8", "uint8"), (3, 131)),
    (("uint8", "uint8"), (0, 128)),
    (("int8", "int8"), (-3, 0)),
    (("uint8", "int8"), (255, 7)),
]


@pytest.mark.grid
@pytest.mark.parametrize(("types", "zeros"), ZERO_POINTS)
def test_products_are_exact_with_any_zero_points(tmp_path, types, zeros):
    shapes = (2, 3, 5, 37), (2, 3, 37, 19)
    library = ts.compile(product(tmp_path, shapes, zeros, types), config=FAST)
    assert "matmul_" in kernels(library)
    a, b = (RNG.uniform(-4, 4, shape).astype(np.float32) for shape in shapes)
    sums = steps(a, "a", zeros[0], types[0]) @ steps(b, "b", zeros[1], types[1])
    expected = sums.astype(np.float32) * (SCALES["a"] * SCALES["b"])
    np.testing.assert_array_equal(library(a, b), expected)


@pytest.mark.grid
@pytest.mark.parametrize(("types", "zeros"), ZERO_POINTS)
def test_products_that_the_model_writes_with_bytes_are_exact(tmp_path, types, zeros):
    shapes = (2, 3, 5, 37), (2, 3, 37, 19)
    parts = numbers(zeros, types)
    nodes = [node("QuantizeLinear", f"{n} {n}_scale {n}_zero", f"{n}_q") for n in "ab"]
    nodes.append(node("MatMulInteger", "a_q b_q a_zero b_zero", "y"))
    model = graph(nodes, dict(zip("ab", shapes, strict=True)), ["y"], parts, opset=17)
    onnx.save(typed(model, 4, onnx.TensorProto.INT32), tmp_path / "product.onnx")
    library = ts.compile(tmp_path / "product.onnx", config=FAST)
    assert "matmul_" in kernels(library)
    a, b = (RNG.uniform(-4, 4, shape).astype(np.float32) for shape in shapes)
    sums = steps(a, "a", zeros[0], types[0]) @ steps(b, "b", zeros[1], types[1])
    np.testing.assert_array_equal(library(a, b), sums)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("shapes", "quantized"),
    [
        (((2, 3, 5, 8), (2, 3, 8, 4)), "a"),
        (((2, 3, 5, 8), (8, 4)), "ab"),
        (((2, 3, 5, 8), (1, 3, 8, 4)), "ab"),
    ],
)
def test_other_products_stay_floats(tmp_path, shapes, quantized):
    path = product(tmp_path, shapes, (3, 131), ("uint8", "uint8"), quantized=quantized)
    told = contextlib.nullcontext() if quantized == "a" else pytest.warns(WidenedBytesWarning)
    with told:
        library = ts.compile(path, config=FAST)
    assert "pack_bytes" not in kernels(library)
    a, b = (RNG.uniform(-2, 2, shape).astype(np.float32) for shape in shapes)
    meant = [steps(x, n, z, "uint8") * SCALES[n] for x, n, z in ((a, "a", 3), (b, "b", 131))]
    expected = meant[0] @ (meant[1] if "b" in quantized else b)
    np.testing.assert_allclose(library(a, b), expected, rtol=1e-4, atol=1e-4)
