"""Extents of dynamic shapes: symbols, their bounds, and arithmetic over them."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping, Sequence

from .errors import TensorError
from .spec import MOST_ELEMENTS, TensorSpec, fits

Bounds = Mapping[str, tuple[int, int | None]]
"""Smallest and largest extent, both included, of a symbol; ``None`` for no limit."""

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_LONGEST = 200
"""Letters of an extent that is still parsed."""


def check(
    specs: Sequence[TensorSpec],
    shapes: Sequence[Sequence[int]],
    dims: Mapping[str, int],
    bounds: Bounds,
) -> None:
    """Refuse extents outside of their bounds, or other than their arithmetic says.

    Parameters
    ----------
    specs, shapes
        Specification and shape of each input.
    dims
        Extent of every symbol that stands alone on an axis of an input, or is bound by one.
    bounds
        By symbol.

    Raises
    ------
    TensorError
        Names the first input that does not fit.
    """
    for spec, shape in zip(specs, shapes, strict=True):
        if not fits(shape):
            found = f"shape {tuple(shape)}"
            raise TensorError(f"input {spec.name}", found, f"at most {MOST_ELEMENTS} elements")
        for axis, (extent, expected) in enumerate(zip(shape, spec.shape, strict=True)):
            if not isinstance(expected, str):
                continue
            where, found = f"input {spec.name}", f"shape {tuple(shape)}, {extent} on axis {axis}"
            for name in names(expected):
                low, high = bounds.get(name, (0, None))
                value = dims.get(name, low)
                if value < low or (high is not None and value > high):
                    limit = f"at least {low}" if high is None else f"{low} to {high}"
                    raise TensorError(where, found, f"{name} = {limit}, {spec}")
            wanted = evaluate(expected, dims)
            if wanted is not None and extent != wanted:
                raise TensorError(where, found, f"{expected} = {wanted}, {spec}")


def bind(extent: str, length: int, dims: dict[str, int]) -> str:
    """Bind the symbol of ``extent``, a name or a multiple such as ``"2 * h + 1"``, by its length.

    A symbol that is known keeps its value. Of what has no whole solution the next lower one is
    bound; then, what the length has to be is returned, else ``""``.
    """
    if extent.isidentifier():
        dims.setdefault(extent, length)
        return ""
    unknown = [name for name in names(extent) if name not in dims]
    if len(unknown) != 1:
        return ""
    first, second, third = (evaluate(extent, {**dims, unknown[0]: n}) for n in range(3))
    if first is None or second is None or third is None:
        return ""
    step = second - first
    if step <= 0 or third - second != step:
        return ""
    dims[unknown[0]], rest = divmod(length - first, step)
    return f"a multiple of {step}{f' and {first}' if first else ''}" if rest else ""


@functools.lru_cache(maxsize=256)
def names(extent: str) -> tuple[str, ...]:
    """Return the symbols of an extent, each once; none where it cannot be read."""
    if extent.isidentifier():
        return (extent,)
    nodes = list(ast.walk(_parsed(extent)))
    called = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}  # T of T.min
    found = (n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called)
    return tuple(dict.fromkeys(found))


def evaluate(extent: str, dims: Mapping[str, int]) -> int | None:
    """Return the value of an extent such as ``"batch * 2"``, ``None`` where that cannot be told."""
    try:
        return _value(_parsed(extent), dims)
    except (KeyError, ValueError, ZeroDivisionError):
        return None


@functools.lru_cache(maxsize=256)
def _parsed(extent: str) -> ast.expr:
    try:
        return ast.parse(extent if len(extent) <= _LONGEST else "", mode="eval").body
    except (SyntaxError, ValueError):
        return ast.Constant(None)


def _value(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return dims[name]
        case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in _OPERATORS:
            return _OPERATORS[type(symbol)](_value(left, dims), _value(right, dims))
        case ast.Call(func=ast.Attribute(attr="min" | "max" as name), args=[left, right]):
            pair = _value(left, dims), _value(right, dims)
            return min(pair) if name == "min" else max(pair)
    raise ValueError
