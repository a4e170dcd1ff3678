"""Products of bytes with their scales, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import (
    RNG,
    assert_same,
    by_onnxruntime,
    normal,
    one_node,
)


def _bytes(*shape: int, kind=np.uint8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def _scales(*shape: int) -> np.ndarray:
    return np.asarray(RNG.uniform(0.01, 0.03, shape), np.float32)


@pytest.mark.parametrize(
    ("left", "right"), [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
)
@pytest.mark.parametrize("columns", [(), (1,), (5,)])
@pytest.mark.parametrize("extras", [False, True])
def test_integers_to_floats(left, right, columns, extras):
    inputs = [_bytes(2, 3, 8, kind=left), _bytes(8, 5, kind=right), _scales(), _scales(*columns)]
    if extras:
        inputs += [_bytes(kind=left), _bytes(*columns, kind=right), normal(5)]
    assert_same("MatMulIntegerToFloat", inputs, atol=1e-4, constant=[1])


@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [(), (5,)])
@pytest.mark.parametrize("extras", [False, True])
def test_floats_are_rounded_first(right, columns, extras):
    inputs = [normal(2, 3, 8), _bytes(8, 5, kind=right), _scales(*columns)]
    if extras:
        inputs += [_bytes(*columns, kind=right), normal(5)]
    assert_same("DynamicQuantizeMatMul", inputs, atol=1e-4, constant=[1])


def test_several_scales_of_the_left_operand_are_refused():
    inputs = [_bytes(2, 8), _bytes(8, 5), _scales(8), _scales()]
    with pytest.raises(ts.UnsupportedError, match="several scales"):
        eager(one_node("MatMulIntegerToFloat", inputs), *inputs)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("axis", [None, 1, 2])
@pytest.mark.parametrize("zero", [False, True])
def test_sixteen_bits_there_and_back(kind, axis, zero):
    shape, given = (2, 3, 4), {} if axis is None else {"axis": axis}
    count = () if axis is None else (shape[axis],)
    scale = np.asarray(_scales(*count) / (100 if np.iinfo(kind).bits == 16 else 1), np.float32)
    there = [normal(*shape), scale, _bytes(*count, kind=kind)]
    if zero or kind is np.uint8:
        assert_same("QuantizeLinear", there[: 2 + zero], **given)
    back = [_bytes(*shape, kind=kind), scale, _bytes(*count, kind=kind)]
    assert_same("DequantizeLinear", back[: 2 + zero], atol=1e-4, **given)


@pytest.mark.parametrize("last", [0, 1])
def test_convolutions_with_channels_last(last):
    x = _bytes(1, 5, 6, 4) if last else _bytes(1, 4, 5, 6)
    inputs = [x, np.float32(0.02), np.uint8(120), _bytes(6, 4, 3, 3, kind=np.int8), _scales(6)]
    inputs += [np.zeros(6, np.int8), np.float32(0.8), np.uint8(90)]
    inputs += [RNG.integers(-900, 900, 6).astype(np.int32)]
    inputs = [np.asarray(part) for part in inputs]
    model = one_node("QLinearConv", inputs, constant=range(1, 9), channels_last=last)
    (found,), (expected,) = eager(model, x), by_onnxruntime(model, [x])
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_the_largest_with_channels_last():
    options = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    assert_same("NhwcMaxPool", [_bytes(2, 6, 5, 4)], **options)


@pytest.mark.grid
@pytest.mark.parametrize("operator", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_pruned_weights_are_products_of_bytes(operator, tmp_path):
    weight = _bytes(64, 32, kind=np.int8)
    weight[np.arange(64) % 4 > 0] = 0
    x = normal(64, 64)
    inputs = [x, weight, _scales(32)]
    if operator == "MatMulIntegerToFloat":
        inputs = [_bytes(64, 64), weight, np.asarray(_scales()), _scales(32)]
    made = one_node(operator, inputs, constant=range(1, len(inputs)))
    (output,) = made.graph.output
    kind = onnx.TensorProto.FLOAT
    output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, [64, 32]))
    onnx.save(made, tmp_path / "m.onnx")
    library = ts.compile(tmp_path / "m.onnx", config=ts.Config(measure=False, tuned=False))
    (decision,) = library.decisions
    assert decision.layer == "i1" and decision.pattern not in ("", "dense")
    assert any("int8" in kernel.function for kernel in library.kernels)
    (expected,) = by_onnxruntime(made, inputs[:1])
    np.testing.assert_allclose(library(inputs[0]), expected, rtol=1e-4, atol=1e-4)
