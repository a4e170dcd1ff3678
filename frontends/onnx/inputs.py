"""Inputs of a graph: which extents are free, and what the caller says about them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.onnx.types import dtype_of, to_tensor
from tvm_sparse.frontends.onnx.weights import LARGEST
from tvm_sparse.onnx_files.extents import fixed_extent

OpenAxes = Callable[[str, int, tuple[int, ...]], Mapping[int, tuple[int, int | None]]]
Range = tuple[int, int | None]
Extent = int | str
"""A number, or the name of an extent that stays open."""
Shape = Sequence[Extent]


@dataclass(frozen=True)
class Given:
    """What a caller says about the inputs of a file.

    Parameters
    ----------
    shapes
        Shape of an input by its name, or the shapes of all in order. A number fixes an extent; a
        text leaves it open under that name. Without an entry the shape is the file's.
    bounds
        Smallest and largest value of an open extent by its name; ``None`` for no limit.
    args, kwargs
        Example inputs in order and by name, whose shapes count.
    open_axes
        Axes that stay open although an example has an extent there: a function of the input's
        name, position and shape, which returns the range of each such axis.
    """

    shapes: Mapping[str, Shape] | Sequence[Shape] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    open_axes: OpenAxes | None = None


@dataclass(frozen=True)
class Input:
    """An input of a graph: equal names in ``shape`` are one extent."""

    name: str
    dtype: torch.dtype
    shape: tuple[Extent, ...]

    @property
    def place(self) -> str:
        """How messages call it."""
        return f"input '{self.name}'"


def read_inputs(graph: Any) -> list[Input]:
    """Return the inputs of a ``GraphProto`` as the file describes them.

    An extent without a name, or with a negative one, is free: it is named after input and axis.

    Raises
    ------
    UnsupportedError
        An input is no tensor, or of a type that has no counterpart in torch.
    InputError
        It has no shape.
    """
    found = []
    for value in graph.input:
        place = f"input '{value.name}'"
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise UnsupportedError(place, f"is a {str(kind).removesuffix('_type')}", "a tensor")
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(place, "has no shape", "extents or symbols", "export it with a shape")
        dims = value.type.tensor_type.shape.dim
        shape = tuple(_extent(dim, f"{value.name}_{axis}") for axis, dim in enumerate(dims))
        found.append(Input(value.name, dtype_of(value.type.tensor_type.elem_type, place), shape))
    return found


def _extent(dim: Any, name: str) -> Extent:
    if (fixed := fixed_extent(dim)) is not None:
        return fixed
    return spelled((dim.dim_param.strip("?-1 ") and dim.dim_param) or name)


def spelled(name: str) -> str:
    """Return ``name`` as an identifier, as TVM and readers of a specification want it."""
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() else f"_{text}"


def settled(inputs: Sequence[Input], given: Given) -> tuple[list[Input], dict[str, Range]]:
    """Return ``inputs`` shaped as ``given``, and the bounds of their open extents.

    An extent that is fixed in one input is fixed in all that have its name.

    Raises
    ------
    InputError
        ``given`` names what is not there, or contradicts the file or itself.
    """
    kept = {x.name: x for x in inputs}
    bounds = {spelled(name): limits for name, limits in given.bounds.items()}
    shapes = _by_name(given.shapes, [*kept])
    if given.args or given.kwargs:
        shapes |= _shapes_of([*kept.values()], given, bounds)
    _check_names("shapes", shapes, kept)
    values: dict[str, Extent] = {}
    for name, shape in shapes.items():
        _unify(kept[name], shape, values)
    result = [
        replace(x, shape=tuple(values.get(n, n) if isinstance(n, str) else n for n in x.shape))
        for x in kept.values()
    ]
    _check_bounds(bounds, _open(result))
    for x in result:
        known = [n for n in x.shape if isinstance(n, int)]
        if math.prod(known) * x.dtype.itemsize > LARGEST:
            raise InputError(x.place, f"has the shape {list(x.shape)}", "one that fits into memory")
    return result, bounds


def _by_name(
    shapes: Mapping[str, Shape] | Sequence[Shape], names: Sequence[str]
) -> dict[str, Shape]:
    if isinstance(shapes, Mapping):
        return dict(shapes)
    if len(shapes) != len(names):
        expected = f"one for each of {', '.join(names)}"
        raise InputError("shapes", f"are {len(shapes)}", expected)
    return dict(zip(names, shapes, strict=True))


def _check_bounds(bounds: Mapping[str, Range], names: Mapping[str, Any]) -> None:
    _check_names("bounds", bounds, names)
    for name, (low, high) in bounds.items():
        if low < 1 or (high is not None and high < low):
            raise InputError(f"bounds of '{name}'", f"are {low} to {high}", "1 <= low <= high")


def _open(inputs: Sequence[Input]) -> dict[str, Any]:
    return {n: None for x in inputs for n in x.shape if isinstance(n, str)}


def _unify(x: Input, shape: Sequence[Extent], values: dict[str, Extent]) -> None:
    """Enter in ``values`` what the extents of ``x`` become."""
    if len(shape) != len(x.shape):
        raise InputError(
            x.place,
            f"is given {len(shape)} axes, {list(shape)}",
            f"{len(x.shape)}, like {list(x.shape)}",
        )
    for axis, (own, new) in enumerate(zip(x.shape, shape, strict=True)):
        if isinstance(new, int) and new < 1:
            raise InputError(x.place, f"is given the extent {new} in axis {axis}", "at least 1")
        wanted = spelled(new) if isinstance(new, str) else new
        if isinstance(own, str):
            if values.setdefault(own, wanted) != wanted:
                raise InputError(
                    x.place,
                    f"is given {new} in axis {axis}, where '{own}' is {values[own]} already",
                    f"one value for '{own}'",
                )
        elif own != wanted:
            raise InputError(
                x.place, f"is given {new} in axis {axis}, which the file fixes", f"{own}"
            )


def _check_names(role: str, names: Any, known: Mapping[str, Any]) -> None:
    for name in names:
        if name not in known:
            expected = ", ".join(f"'{n}'" for n in known) or "none, nothing is open"
            raise InputError(role, f"name '{name}', which the file does not have", expected)


def _shapes_of(
    inputs: Sequence[Input], given: Given, bounds: dict[str, Range]
) -> dict[str, tuple[Extent, ...]]:
    """Return the shape of each example by its input's name; ranges of open axes go to ``bounds``.

    Raises
    ------
    InputError
        There are more or fewer examples than inputs, or one has another type.
    """
    if len(given.args) > len(inputs):
        found, expected = f"are {len(given.args)}", f"{len(inputs)}, one for each input"
        raise InputError("example inputs", found, expected)
    examples = dict(zip((x.name for x in inputs), given.args, strict=False))
    twice = sorted(examples.keys() & given.kwargs.keys())
    if twice:
        raise InputError("example inputs", f"give '{twice[0]}' twice", "one value for each input")
    examples |= given.kwargs
    _check_names("example inputs", examples, {x.name: x for x in inputs})
    shapes: dict[str, tuple[Extent, ...]] = {}
    for position, x in enumerate(inputs):
        if x.name not in examples:
            raise InputError("example inputs", f"have none for '{x.name}'", "one for each input")
        shape = tuple(_example(x, examples[x.name]).shape)
        ranges = given.open_axes(x.name, position, shape) if given.open_axes else {}
        shapes[x.name] = _left_open(x, shape, ranges, bounds)
    return shapes


def _left_open(
    x: Input, shape: tuple[int, ...], ranges: Mapping[int, Range], bounds: dict[str, Range]
) -> tuple[Extent, ...]:
    """Return ``shape`` with the file's names where axes stay open."""
    result: list[Extent] = [*shape]
    for axis, limits in ranges.items():
        own = x.shape[axis] if -len(x.shape) <= axis < len(x.shape) else axis
        if not isinstance(own, str):
            raise InputError(x.place, f"cannot stay open in axis {axis}", f"{list(x.shape)}")
        result[axis] = own
        bounds[own] = limits
    return tuple(result)


def _example(x: Input, value: Any) -> torch.Tensor:
    """Return ``value`` as a tensor; numbers stand for tensors without axes."""
    if isinstance(value, np.ndarray):
        value = to_tensor(value)
    if isinstance(value, int | float):
        return torch.tensor(value, dtype=x.dtype)
    if not isinstance(value, torch.Tensor):
        found = f"is given a {type(value).__name__}"
        raise InputError(x.place, found, f"a tensor of {_name(x.dtype)}")
    if value.dtype != x.dtype:
        raise InputError(x.place, f"is given {_name(value.dtype)}", _name(x.dtype))
    return value


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
