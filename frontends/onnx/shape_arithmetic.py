"""Arithmetic on known arrays, in NumPy: what exporters compute shapes with.

Each function takes the node and its arrays; it returns None where torch has to do it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tvm_sparse.frontends.onnx.agreement import deciding
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.types import DTYPES

LARGEST_INTEGERS = 4096
"""Elements of the largest array of integers that takes part in this arithmetic."""


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, a, b: function(a, b)


def _compared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a comparison; of extents it is a condition of the program, that with one too."""

    def compared(node: Node, a: np.ndarray, b: np.ndarray) -> Any:
        with deciding():
            return np.vectorize(bool, [np.bool_])(function(a, b))

    return compared


def _divide(node: Node, a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return a / b
    _refuse_zeros(node, b)
    if not _numeric((a, b)):
        return a // b
    return (np.sign(a) * np.sign(b) * (abs(a) // abs(b))).astype(a.dtype)


def _remainder(node: Node, a: np.ndarray, b: np.ndarray) -> Any:
    if node.attributes.get("fmod") or a.dtype.kind == "f":
        return None
    _refuse_zeros(node, b)
    return a % b


def _refuse_zeros(node: Node, divisors: np.ndarray) -> None:
    """Refuse to divide whole numbers by a zero; an open extent is none."""
    if any(isinstance(x, int) and x == 0 for x in divisors.reshape(-1).tolist()):
        raise node.unsound("divides whole numbers by zero", "divisors that are not zero")


def _axes(node: Node, axes: np.ndarray | None) -> tuple[int, ...]:
    found = node.attributes.get("axes") if axes is None else axes.reshape(-1).tolist()
    return tuple(found) if found is not None else ()


def _squeeze(node: Node, x: np.ndarray, axes: np.ndarray | None = None) -> Any:
    return np.squeeze(x, _axes(node, axes) or None)


def _unsqueeze(node: Node, x: np.ndarray, axes: np.ndarray | None = None) -> Any:
    return np.expand_dims(x, _axes(node, axes))


def _slice(node: Node, x: np.ndarray, *given: np.ndarray | None) -> Any:
    rows = [None if row is None else row.tolist() for row in given]
    if not rows:
        rows = [node.attributes.get(name) for name in ("starts", "ends", "axes")]
    starts, ends, axes, steps = (*rows, None, None)[:4]
    if starts is None or ends is None:
        return None
    if not all(isinstance(number, int) for number in (*starts, *ends, *(steps or ()))):
        return None  # an open extent, which NumPy would make the number that it was traced at
    place = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        step = steps[i] if steps else 1
        # An end before the first element counts from the end in Python.
        axis = axes[i] if axes else i
        stop = None if step < 0 and end < -x.shape[axis] else end
        place[axis] = slice(start, stop, step)
    return x[tuple(place)]


def _reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(node: Node, x: np.ndarray, axes: np.ndarray | None = None) -> Any:
        places = _axes(node, axes)
        if not places and node.attributes.get("noop_with_empty_axes", 0):
            return x
        keep = bool(node.attributes.get("keepdims", 1))
        found = function(x, axis=places or None, keepdims=keep)
        return np.asarray(found, x.dtype)  # an extent alone is no array

    return reduced


def _cast(node: Node, x: np.ndarray) -> Any:
    import onnx

    name = onnx.TensorProto.DataType.Name(node.attributes["to"])
    if x.dtype == object:
        return x if name in ("INT64", "INT32") else None
    if name not in DTYPES or name == "BFLOAT16" or x.dtype.kind not in "iubf":
        return None
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(node.attributes["to"]))


def _reshape(node: Node, x: np.ndarray, shape: np.ndarray) -> Any:
    if node.attributes.get("allowzero", 0) or 0 in shape:
        return None
    return x.reshape(shape.tolist())


def _fill(node: Node, shape: np.ndarray) -> Any:
    from onnx import numpy_helper

    if shape.dtype == object or int(np.prod(shape.astype(float))) > LARGEST_INTEGERS:
        return None
    value = node.attributes.get("value")
    number = np.float32(0) if value is None else numpy_helper.to_array(value).reshape(())
    return np.full(shape.tolist(), number)


def _range(node: Node, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> Any:
    if not _numeric((start, limit, delta)):
        return None
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0 or abs((last - first) / step) > LARGEST_INTEGERS:
        return None
    return np.arange(first, last, step, dtype=start.dtype)


def _expand(node: Node, x: np.ndarray, shape: np.ndarray) -> Any:
    if shape.dtype == object or float(np.prod(shape.astype(float))) > LARGEST_INTEGERS:
        return None
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _tile(node: Node, x: np.ndarray, repeats: np.ndarray) -> Any:
    if repeats.dtype == object or float(np.prod(repeats.astype(float))) > LARGEST_INTEGERS:
        return None
    return np.tile(x, repeats.tolist())


def _where(node: Node, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
    return np.where(condition.astype(bool), x, y)


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda node, x: function(x) if x.dtype.kind == "f" else None


def _numeric(arrays: Sequence[np.ndarray]) -> bool:
    return all(a.dtype != object for a in arrays)


def _same_shape(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return list(np.broadcast_arrays(*arrays))


def _extreme(function: Any, symbolic: Callable[..., Any], arrays: Sequence[np.ndarray]) -> Any:
    """Return the largest or smallest elements; of extents as an extent."""
    if not _numeric(arrays):
        function = np.frompyfunc(symbolic, 2, 1)
    return functools.reduce(function, _same_shape(arrays))


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Identity": lambda node, x: x,
    "Gather": lambda node, x, i: np.take(x, i, node.attributes.get("axis", 0)),
    "Concat": lambda node, *xs: np.concatenate(xs, node.attributes.get("axis", 1)),
    "Transpose": lambda node, x: np.transpose(x, node.attributes.get("perm")),
    "NonZero": lambda node, x: None if x.dtype == object else np.array(np.nonzero(x), np.int64),
    "Neg": lambda node, x: -x,
    "Abs": lambda node, x: abs(x),
    "Not": lambda node, x: ~x,
    "Floor": _of_floats(np.floor),
    "Ceil": _of_floats(np.ceil),
    "Round": _of_floats(np.rint),
    "Sqrt": _of_floats(np.sqrt),
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _divide,
    "Mod": _remainder,
    "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or),
    "Equal": _compared(np.equal),
    "Less": _compared(np.less),
    "LessOrEqual": _compared(np.less_equal),
    "Greater": _compared(np.greater),
    "GreaterOrEqual": _compared(np.greater_equal),
    "Max": lambda node, *xs: _extreme(np.maximum, torch.sym_max, xs),
    "Min": lambda node, *xs: _extreme(np.minimum, torch.sym_min, xs),
    "ReduceSum": _reduce(np.sum),
    "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Cast": _cast,
    "Reshape": _reshape,
    "ConstantOfShape": _fill,
    "Range": _range,
    "Expand": _expand,
    "Tile": _tile,
    "Where": _where,
}
"""By operator."""
