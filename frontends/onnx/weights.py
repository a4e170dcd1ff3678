"""The weights of an ONNX model, wherever it holds them: each is taken out and has a name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx.known import is_small
from tvm_sparse.frontends.onnx.narrow import widen
from tvm_sparse.frontends.onnx.types import to_array

LARGEST = 1 << 40
"""Bytes that a weight or input may take, more than which no machine has."""

_ELSEWHERE = "weight"
"""The key by which a tensor says which weight it was."""


def densify(proto: Any) -> None:
    """Write sparse tensors out: initializers, and values of ``Constant``, of all graphs.

    Numbers of 4 bits become bytes where that is the same.
    """
    from onnx import helper

    for graph in _graphs(proto):
        for sparse in graph.sparse_initializer:
            graph.initializer.append(_dense(sparse, sparse.values.name))
        del graph.sparse_initializer[:]
    for node in nodes_of(proto):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                value = _dense(attribute.sparse_tensor, label(node))
                attribute.CopyFrom(helper.make_attribute("value", value))
    widen(proto, [*nodes_of(proto)])


def _dense(sparse: Any, name: str) -> Any:
    from onnx import numpy_helper

    place, shape = f"weight '{name}'", tuple(sparse.dims)
    values = to_array(sparse.values, place)
    if min(shape, default=0) < 0 or np.prod([float(n) for n in shape]) * values.itemsize > LARGEST:
        raise InputError(place, f"has the shape {list(shape)}", "a weight")
    indices = numpy_helper.to_array(sparse.indices)
    flat = indices.reshape(-1) if indices.ndim == 1 else _row_major(indices, shape)
    value = np.zeros(int(np.prod(shape, dtype=np.int64)), values.dtype)
    inside = len(flat) == values.size and ((flat >= 0) & (flat < value.size)).all()
    if not inside:
        raise InputError(place, "has indices outside of its shape", f"{values.size} inside {shape}")
    value[flat] = values.reshape(-1)
    return numpy_helper.from_array(value.reshape(shape), name)


def _row_major(indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return places in a row of elements, -1 for one that lies outside."""
    if indices.ndim != 2 or indices.shape[1] != len(shape):
        return np.full(1, -1)
    inside = ((indices >= 0) & (indices < np.array(shape))).all(1)
    places = indices @ np.cumprod([1, *shape[:0:-1]], dtype=np.int64)[::-1]
    return np.where(inside, places, -1)


def take_weights(proto: Any) -> dict[str, np.ndarray]:
    """Return the weights of ``proto`` by name, and free its copy of each.

    Initializers have their own names. The value of a ``Constant`` has that of its node, and one of
    an inner graph its own, with a number where that is taken; :func:`weight_of` tells it again.
    Small ones that are no floats stay: they are indices and shapes.
    """
    weights = {}
    for tensor in proto.graph.initializer:
        weights[tensor.name] = to_array(tensor, f"weight '{tensor.name}'")
        tensor.ClearField("raw_data")
    for name, tensor in _inner(proto):
        array = to_array(tensor, f"weight '{name}'")
        if is_small(array) and array.dtype.kind != "f":
            continue
        unique, number = name, 1
        while unique in weights:
            unique, number = f"{name}_{number}", number + 1
        weights[unique] = array
        tensor.ClearField("raw_data")
        tensor.external_data.add(key=_ELSEWHERE, value=unique)
    return weights


def weight_of(tensor: Any) -> str | None:
    """Return the name of the weight that was taken out of ``tensor``, if one was."""
    return next((e.value for e in tensor.external_data if e.key == _ELSEWHERE), None)


def label(node: Any) -> str:
    """Return how messages and reports call a node: its name, or its operator and first output."""
    first = next((name for name in node.output if name), "")
    return node.name or f"{node.op_type} of '{first}'".replace("'", "")


def _inner(proto: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and tensor of each constant that is no initializer of the whole graph."""
    for graph in _graphs(proto):
        if graph is not proto.graph:
            yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in nodes_of(proto):
        if node.op_type == "Constant":
            yield from (
                (node.name or node.output[0], a.t) for a in node.attribute if a.type == a.TENSOR
            )


def _graphs(proto: Any) -> Iterator[Any]:
    """Yield the graph and the graphs inside of it, those of functions too."""
    yield proto.graph
    for node in nodes_of(proto):
        for attribute in node.attribute:
            yield from ([attribute.g] if attribute.HasField("g") else attribute.graphs)


def nodes_of(proto: Any) -> Iterator[Any]:
    """Yield every node, also of inner graphs and of functions."""
    waiting = [proto.graph, *proto.functions]
    while waiting:
        for node in waiting.pop().node:
            yield node
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else attribute.graphs
