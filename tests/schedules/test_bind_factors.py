"""Numbers with variables of their own, by which vectors are multiplied, are built and right."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import tvm
from tvm import s_tir, te, tirx

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.ops.ieee import let
from tvm_sparse.schedules.bind_factors import BindFactors
from tvm_sparse.schedules.blocks import all_blocks, nodes
from tvm_sparse.schedules.single_bindings import SingleBindings


def squared(x):
    """Return the square of ``x``, rounded."""
    return let(tirx.nearbyint(x + 0.25), lambda v: v * v)


@pytest.mark.parametrize(
    ("added", "value"),
    [
        (lambda x: squared(x) * 0.5, 4.5),
        (lambda x: 0.5 * squared(x), 4.5),
        (lambda x: squared(x) * squared(x + 1.0), 144),
        (lambda x: squared(squared(x) * 0.5) * 2.0, 50),
    ],
)
def test_a_vector_and_a_product_of_numbers(added, value):
    x = te.placeholder((8,), "float32", "X")
    y = te.compute((8,), lambda i: x[i] + added(x[0] + 0.0), "Y")
    sch = s_tir.Schedule(te.create_prim_func([x, y]))
    (block,) = all_blocks(sch)
    sch.vectorize(sch.get_loops(block)[0])
    module = SingleBindings()(BindFactors()(sch.mod))
    for product in nodes(module["main"].body, tirx.Mul):
        assert not nodes(product.a, tirx.Let) and not nodes(product.b, tirx.Let)
    given, found = np.arange(3, 11, dtype=np.float32), np.empty(8, np.float32)
    tvm.compile(module, target="llvm")(given, found)
    np.testing.assert_array_equal(found, given + value)


def test_functions_without_variables_stay():
    x = te.placeholder((8,), "float32", "X")
    func = te.create_prim_func([x, te.compute((8,), lambda i: x[i] * 2, "Y")])
    assert BindFactors()(tvm.IRModule({"main": func}))["main"].same_as(func)


STATISTICS = {
    "mean": ("ReduceMean", "", {"axes": [-1], "keepdims": 1}),
    "layer": ("LayerNormalization", " gains", {"axis": -1}),
    "instance": ("InstanceNormalization", " gain shift", {}),
    "softmax": ("Softmax", "", {"axis": -1}),
}


def quantized(source: str, result: str, domain: str):
    return [
        node("QuantizeLinear", f"{source} s z", f"{result}_q", domain=domain),
        node("DequantizeLinear", f"{result}_q s z", result, domain=domain),
    ]


def chain(name: str, domain: str):
    """Return the nodes of a centred square and its mean, every step quantized."""
    operator, more, attributes = STATISTICS[name]
    values = [f"{name}_{step}" for step in "abcdefgh"]
    a, b, c, d, e, f, g, h = values
    return [
        node(operator, f"start{more}", a, **attributes),
        *quantized(a, b, domain),
        node("Sub", f"start {b}", c),
        *quantized(c, d, domain),
        node("Mul", f"{d} {d}", e),
        *quantized(e, f, domain),
        node("ReduceMean", f, g, axes=[-1], keepdims=1),
        *quantized(g, h, domain),
    ]


@pytest.mark.parametrize(
    ("dtype", "scale", "zero"),
    [pytest.param("uint16", 2**-10, 30000, marks=pytest.mark.slow), ("int8", 0.04, 3)],
)
def test_statistics_of_quantized_tensors(tmp_path, dtype, scale, zero):
    domain = "com.microsoft" if dtype.endswith("16") else ""
    nodes_ = quantized("x", "start", domain)
    for name in STATISTICS:
        nodes_ += chain(name, domain)
    weights = {
        "s": np.float32(scale),
        "z": np.array(zero, dtype),
        "gains": np.linspace(0.5, 1.5, 8, dtype=np.float32),
        "gain": np.linspace(0.5, 1.5, 3, dtype=np.float32),
        "shift": np.linspace(-0.5, 0.5, 3, dtype=np.float32),
    }
    outputs = [f"{name}_h" for name in STATISTICS]
    path = tmp_path / "m.onnx"
    shape = {"x": (2, 3, 8)}
    made = graph(nodes_, shape, outputs, weights, opset=17, domains={"com.microsoft": 1})
    onnx.save(made, path)
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 8)).astype(np.float32)
    library = ts.compile(path, config=ts.Config(measure=False))
    wanted = onnxruntime.InferenceSession(path).run(None, {"x": x})
    for name, found, value in zip(outputs, library(torch.from_numpy(x)), wanted, strict=True):
        # A tie that falls to the other side is a step more or less.
        np.testing.assert_allclose(found, value, atol=2 * scale, err_msg=name)
