"""Parts of an ONNX graph: up to named values, with inputs that are fixed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.part import Part, unknown
from tvm_sparse.frontends.onnx.reader import read_onnx
from tvm_sparse.frontends.onnx.types import dtype_of
from tvm_sparse.onnx_files.extents import fixed_extent


def cut(proto: Any, part: Part) -> Any:
    """Take ``part`` of the ``ModelProto``, which is changed and returned.

    Nodes and weights that its outputs do not need go; inputs stay, so that it is called alike.

    Raises
    ------
    InputError
        A name is unknown, or a constant is of another type or shape than its input.
    """
    _fix(proto.graph, part)
    if part.outputs:
        _end(proto.graph, part.outputs)
    return proto


def write_cut(source: Path, part: Part, folder: Path) -> Path:
    """Write ``part`` of the ONNX file ``source`` into ``folder``; weights lie beside it.

    Raises
    ------
    InputError
        As :func:`cut` and the reader do.
    """
    import onnx

    path = folder / "part.onnx"
    onnx.save(cut(read_onnx(source), part), str(path), save_as_external_data=True)
    return path


def _fix(graph: Any, part: Part) -> None:
    from onnx import numpy_helper

    inputs = {value.name: value for value in graph.input}
    for name, constant in part.constants.items():
        if name not in inputs:
            raise unknown("constants", name, inputs, "input of the graph")
        array = _constant(inputs[name], constant)
        graph.initializer.append(numpy_helper.from_array(array, name))
        graph.input.remove(inputs[name])


def _constant(value: Any, constant: Any) -> np.ndarray:
    """Return ``constant`` with the type and the rank of an input."""
    from onnx import helper

    place, kind = f"constant '{value.name}'", value.type.tensor_type
    dtype_of(kind.elem_type, place)
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    given = np.asarray(constant)
    if given.dtype.kind not in "biuf":
        raise InputError(place, f"is {constant!r}", "a number, or an array of numbers")
    with np.errstate(all="ignore"):
        array = given.astype(dtype)
    if dtype.kind in "biu" and not (array == given).all():
        raise InputError(place, f"is {constant!r}", f"numbers of {dtype}")
    wanted = [fixed_extent(dim) for dim in kind.shape.dim]
    if array.ndim == 0 and all(n in (1, None) for n in wanted):
        array = array.reshape([1] * len(wanted))
    fits = array.ndim == len(wanted) and all(
        n in (None, m) for n, m in zip(wanted, array.shape, strict=True)
    )
    if kind.HasField("shape") and not fits:
        raise InputError(place, f"has the shape {list(array.shape)}", f"{wanted}")
    return array


def _end(graph: Any, names: tuple[str, ...]) -> None:
    """Let ``graph`` return the values ``names``, and drop what they do not need."""
    from onnx import ValueInfoProto

    given = [value.name for value in graph.input]
    computed = {name: node for node in graph.node for name in node.output if name}
    for name in names:
        if name not in computed and name not in given:
            raise unknown("outputs", name, [*computed, *given], "value of the graph")
    needed, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += _reads(computed[name]) if name in computed else ()
    kept = [node for node in graph.node if needed.intersection(node.output)]
    weights = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, values in (("node", kept), ("initializer", weights)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    del graph.output[:]
    graph.output.extend(ValueInfoProto(name=name) for name in names)


def _reads(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, and those that its inner graphs may read."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _reads(inner)
