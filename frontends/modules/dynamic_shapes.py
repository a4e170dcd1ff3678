"""``dynamic_shapes`` as :func:`torch.export.export` takes it, checked against the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.example_inputs import parameters

WHERE = "dynamic_shapes"


def checked(shapes: Any, module: nn.Module, named: Mapping[str, Any]) -> Any:
    """Return ``shapes`` for the arguments ``named`` of ``module``, axes counted from the first.

    An argument that the examples leave out may be mentioned, with nothing open.

    Raises
    ------
    InputError
        They mention no argument, no axis or no :class:`torch.export.Dim`.
    """
    if isinstance(shapes, Mapping):
        known = parameters(module)
        for name in shapes:
            if name not in named and (name not in known or shapes[name]):
                some = f"arguments among {', '.join(named) or 'none'}"
                todo = "put the mapping of axes into a tuple" if isinstance(name, int) else ""
                found = f"'{name}' is no argument of the example inputs"
                raise InputError(WHERE, found, some, todo)
        shapes = {name: axes for name, axes in shapes.items() if name in named}
        pairs = {name: (axes, named[name]) for name, axes in shapes.items()}
    elif isinstance(shapes, tuple | list):
        if len(shapes) != len(named):
            found = f"has {len(shapes)} entries for {len(named)} arguments ({', '.join(named)})"
            raise InputError(WHERE, found, "one for each argument, None where nothing is open")
        names = zip(named, shapes, strict=True)
        pairs = {name: (axes, named[name]) for name, axes in names}
    else:
        return shapes  # what torch.export has besides: a collection of shapes by tensor
    for name, (axes, value) in pairs.items():
        _check(name, axes, value)
    counted = {name: _counted(axes, value) for name, (axes, value) in pairs.items()}
    return counted if isinstance(shapes, Mapping) else tuple(counted.values())


def _counted(axes: Any, value: Any) -> Any:
    """Return what is said of one argument without negative axes, which PyTorch does not know."""
    if isinstance(value, torch.Tensor):
        found = isinstance(axes, Mapping)
        return {axis % value.dim(): dim for axis, dim in axes.items()} if found else axes
    if isinstance(value, Mapping) and isinstance(axes, Mapping):
        return {key: _counted(axes[key], held) for key, held in value.items()}
    if isinstance(value, tuple | list) and isinstance(axes, tuple | list):
        return type(axes)(map(_counted, axes, value))
    return axes


def _check(name: str, axes: Any, value: Any) -> None:
    """Check what is said of one argument, or of what a container holds."""
    where = f"{WHERE} of '{name}'"
    if isinstance(axes, str | int | Dim):
        raise InputError(where, f"is {axes!r}", "a mapping of axes to torch.export.Dim, or None")
    if not isinstance(value, torch.Tensor):
        _check_parts(name, axes, value)
        return
    if isinstance(axes, tuple | list) and len(axes) != value.dim():
        found = f"has {len(axes)} entries for a tensor of {value.dim()} axes"
        raise InputError(where, found, "one for each axis, None where it is not open")
    for axis, dim in axes.items() if isinstance(axes, Mapping) else enumerate(axes or ()):
        if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
            raise InputError(where, f"has an axis {axis!r}", f"one of a tensor of {value.dim()}")
        if isinstance(dim, str):
            todo = f"pass torch.export.Dim({dim!r})"
            raise InputError(where, f"has the text {dim!r} for axis {axis}", "a Dim", todo)
        _check_bounds(where, axis, dim, value.shape[axis])


def _check_parts(name: str, axes: Any, value: Any) -> None:
    """Check what is said of the parts of a container, or of a constant."""
    where = f"{WHERE} of '{name}'"
    several = isinstance(value, tuple | list)
    if isinstance(value, Mapping) and isinstance(axes, Mapping):
        if axes.keys() != value.keys():
            raise InputError(where, f"has the keys {_listed(axes)}", f"{_listed(value)}, each once")
        for key, held in value.items():
            _check(f"{name}.{key}", axes[key], held)
    elif several and isinstance(axes, tuple | list):
        if len(axes) != len(value):
            found = f"has {len(axes)} entries for {len(value)}"
            raise InputError(where, found, "one for each, None where nothing is open")
        for place, (part, held) in enumerate(zip(axes, value, strict=True)):
            _check(f"{name}[{place}]", part, held)
    elif axes and (several or isinstance(value, Mapping)):
        kind = "mapping" if isinstance(axes, Mapping) else type(axes).__name__
        found = f"is a {kind}, and the argument is a {type(value).__name__} of {len(value)}"
        raise InputError(where, found, f"a {type(value).__name__} of as many entries")
    elif axes and isinstance(value, bool | int | float | str | None):
        raise InputError(where, f"is set, and {value!r} is no tensor", "None")


def _listed(mapping: Mapping[Any, Any]) -> str:
    return ", ".join(map(repr, mapping))


def _check_bounds(where: str, axis: int, dim: Any, extent: int) -> None:
    """Refuse a range that the example is outside of, and what is no dimension."""
    if dim is not None and not isinstance(dim, int | Dim | type(Dim.AUTO)):
        found = f"has a {type(dim).__name__} for axis {axis}"
        raise InputError(where, found, "torch.export.Dim, Dim.AUTO or None")
    if isinstance(dim, Dim) and not dim.min <= extent <= dim.max:
        low, high = dim.min, dim.max
        found = f"says {low} to {high} for axis {axis}, which is {extent} in the example"
        raise InputError(where, found, "an example within the range", "change one of them")
