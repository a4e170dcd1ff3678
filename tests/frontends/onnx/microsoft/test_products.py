"""Products and convolutions with what is fused into them, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager
from tests.frontends.onnx.microsoft.running import assert_same, by_onnxruntime, normal, one_node

ACTIVATIONS = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "Softplus": {},
    "Softsign": {},
    "LeakyRelu": {"alpha": 0.3},
    "Elu": {"alpha": 0.7},
    "ThresholdedRelu": {"alpha": 0.4},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_general_products_are_activated(activation):
    given = {f"activation_{key}": value for key, value in ACTIVATIONS[activation].items()}
    inputs = [normal(3, 8), normal(8, 5), normal(5)]
    assert_same("FusedGemm", inputs, activation=activation, **given)


@pytest.mark.parametrize("sides", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("bias", [None, (5,), (3, 1), (1,)])
def test_general_products_are_scaled(sides, bias):
    a, b = (8, 3) if sides[0] else (3, 8), (5, 8) if sides[1] else (8, 5)
    inputs = [normal(*a), normal(*b), None if bias is None else normal(*bias)]
    options = {"transA": sides[0], "transB": sides[1], "alpha": 0.5, "beta": 2.0}
    assert_same("FusedGemm", inputs, activation="Relu", **options)


@pytest.mark.parametrize(
    ("activation", "params"),
    [
        ("", []),
        ("Relu", []),
        ("Sigmoid", []),
        ("Tanh", []),
        ("LeakyRelu", [0.3]),
        ("Clip", [0.0, 0.4]),
        ("HardSigmoid", [0.3, 0.4]),
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_convolutions_are_activated(activation, params, added):
    inputs = [normal(1, 4, 5, 6), normal(6, 2, 3, 3), normal(6)]
    inputs += [normal(1, 6, 5, 6)] if added else []
    given = {"activation": activation} if activation else {}
    given |= {"activation_params": params} if params else {}
    assert_same("FusedConv", inputs, group=2, pads=[1, 1, 1, 1], **given)


@pytest.mark.parametrize(
    ("left", "right", "options"),
    [
        ((3, 4), (4, 5), {"alpha": 0.5}),
        ((2, 3, 4), (5, 4), {"transB": 1}),
        ((2, 4, 3), (2, 4, 5), {"transA": 1, "alpha": -2.0}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1}),
        ((4, 2, 6, 3), (2, 6, 4, 5), {"transBatchA": 1, "transA": 1}),
        ((2, 6, 3, 4), (4, 2, 6, 5), {"transBatchB": 1}),
        ((2, 3, 4), (5, 2, 4), {"transBatchB": 1, "transB": 1}),
        ((3, 4), (4,), {"transB": 1}),
        ((4,), (4, 3), {"transA": 1}),
    ],
)
def test_products_are_turned_and_scaled(left, right, options):
    assert_same("FusedMatMul", [normal(*left), normal(*right)], **options)


def test_what_no_activation_is_refused():
    inputs = [normal(3, 8), normal(8, 5)]
    with pytest.raises(ts.UnsupportedError, match="activation 'Odd'"):
        eager(one_node("FusedGemm", inputs, activation="Odd"), *inputs)
    inputs = [normal(1, 4, 5, 6), normal(6, 4, 3, 3)]
    with pytest.raises(ts.InputError, match="2 activation_params"):
        made = one_node("FusedConv", inputs, activation="Relu", activation_params=[1.0, 2.0])
        eager(made, *inputs)


def _pruned(*shape: int) -> np.ndarray:
    """Return a weight of which each bank of 16 along its last axis keeps four."""
    banks = normal(*shape).reshape(-1, 16)
    np.put_along_axis(banks, np.abs(banks).argsort(1)[:, :12], 0, 1)
    return banks.reshape(shape)


def _file(path, operator, inputs, **options):
    made = one_node(operator, inputs, **options)
    (output,) = made.graph.output
    rank = by_onnxruntime(made, [inputs[0]])[0].ndim
    shape = [f"e{axis}" for axis in range(rank)]
    kind = onnx.TensorProto.FLOAT
    output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, kind, shape))
    onnx.save(made, path)
    return made


@pytest.mark.grid
@pytest.mark.parametrize(
    ("operator", "shape", "weight", "options"),
    [
        ("FusedGemm", (4, 64), (32, 64), {"transB": 1, "activation": "Relu"}),
        ("FusedMatMul", (2, 4, 64), (32, 64), {"transB": 1, "alpha": 0.5}),
        ("FusedConv", (1, 32, 6, 6), (16, 32, 1, 1), {"activation": "Relu"}),
    ],
)
def test_pruned_weights_get_a_sparse_kernel(operator, shape, weight, options, tmp_path):
    value = _pruned(*weight[:2]).reshape(weight)
    inputs = [normal(*shape), value]
    made = _file(tmp_path / "m.onnx", operator, inputs, constant=[1], **options)
    library = ts.compile(tmp_path / "m.onnx", config=ts.Config(measure=False, tuned=False))
    (decision,) = library.decisions
    assert (decision.layer, decision.pattern) == ("i1", "balanced 4 of 16")
    assert decision.chosen == "balanced"
    expected = by_onnxruntime(made, inputs[:1])[0]
    np.testing.assert_allclose(library(inputs[0]), expected, rtol=1e-4, atol=1e-5)
