"""Small ONNX graphs for tests, and how to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvm_sparse.frontends.onnx.network import Network
from tvm_sparse.frontends.onnx.weights import take_weights

Shapes = Mapping[str, Sequence[int | str]]


def graph(
    nodes: Sequence[Any],
    inputs: Shapes,
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 21,
    functions: Sequence[Any] = (),
    domains: Mapping[str, int] | None = None,
) -> Any:
    """Return a model of ``nodes`` with inputs and outputs of float32."""
    made = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    opsets = {"": opset, **(domains or {})}
    return helper.make_model(
        made,
        functions=list(functions),
        ir_version=10,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
    )


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node whose inputs and outputs are separated by spaces; ``-`` is one left out."""
    given = ["" if name == "-" else name for name in inputs.split()]
    results = outputs.split()
    return helper.make_node(operator, given, results, name=results[0], **attributes)


def detecting(weight: np.ndarray) -> Any:
    """Return a graph whose values ``boxes`` and ``scores`` come before an operator we refuse."""
    nodes = [
        node("MatMul", "x w", "features"),
        node("Sigmoid", "features", "scores"),
        node("Relu", "features", "boxes"),
        node("NonZero", "scores", "found"),
        node("Gather", "boxes found", "y"),
    ]
    weights = {"w": weight, "unread": weight}
    return graph(nodes, {"x": ["n", len(weight)]}, ["y"], weights, opset=17)


def branching() -> Any:
    """Return a graph that multiplies ``x`` by another weight for each ``rate``, 16000 fits."""

    def branch(extent: int, name: str) -> Any:
        weight = numpy_helper.from_array(np.ones((extent, 4), np.float32), name)
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [1, 4])
        product = node("MatMul", f"x {name}", f"{name}_y")
        return helper.make_graph([product], name, [], [output], [weight])

    either = {"then_branch": branch(9, "high"), "else_branch": branch(5, "low")}
    nodes = [node("Equal", "rate known", "same"), node("If", "same", "y", **either)]
    made = graph(nodes, {"x": [1, 9], "rate": []}, ["y"], {"known": np.array(16000)}, opset=17)
    made.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    return made


def eager(model: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of ``model`` in eager torch."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    network = Network(copy, take_weights(copy))
    return [y.numpy() for y in network(*map(torch.from_numpy, inputs))]


def expected(model: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    """Return the outputs of ``model`` by ONNX's reference implementation."""
    names = [value.name for value in model.graph.input]
    return list(ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True))))
