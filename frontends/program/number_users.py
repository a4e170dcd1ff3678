"""Operators that take a number, in a form that takes a tensor without axes instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

Emit = Callable[..., fx.Node]
"""Adds an operator to the graph and returns its node."""

_SCALAR_FORMS = {
    **{getattr(aten, n).Scalar: getattr(aten, n).Tensor for n in ("add", "sub", "mul", "div")},
    **{getattr(aten, n).Scalar: getattr(aten, n).Tensor for n in ("eq", "ne", "lt", "le", "gt")},
    **{getattr(aten, n).Scalar: getattr(aten, n).Tensor for n in ("ge", "fmod", "remainder")},
    **{getattr(aten, n).Tensor: getattr(aten, n).Tensor for n in ("add", "sub", "mul", "div")},
    **{getattr(aten, n).Tensor: getattr(aten, n).Tensor for n in ("eq", "ne", "lt", "le", "gt")},
    **{getattr(aten, n).Tensor: getattr(aten, n).Tensor for n in ("ge", "fmod", "remainder")},
    aten.div.Tensor_mode: aten.div.Tensor_mode,
    aten.div.Scalar_mode: aten.div.Tensor_mode,
    aten.pow.Tensor_Scalar: aten.pow.Tensor_Tensor,
    aten.pow.Scalar: aten.pow.Tensor_Tensor,
    aten.clamp.default: aten.clamp.Tensor,
    aten.hardtanh.default: aten.clamp.Tensor,
    aten.clamp_min.default: aten.clamp_min.Tensor,
    aten.clamp_max.default: aten.clamp_max.Tensor,
    aten.masked_fill.Scalar: aten.masked_fill.Tensor,
    aten.where.ScalarOther: aten.where.self,
    aten.where.ScalarSelf: aten.where.self,
}
"""By operator: the one whose operands are tensors."""


def _elementwise(other: Any) -> Callable[..., fx.Node]:
    def write(emit: Emit, node: fx.Node, *args: Any, **named: Any) -> fx.Node:
        result = node.meta["val"].dtype
        like = next(a for a in args if isinstance(a, fx.Node))
        operands = [a if isinstance(a, fx.Node | None) else _like(emit, like, a) for a in args]
        wanted = _computed_in(node)
        if wanted.is_floating_point:
            operands = [_in_type(emit, a, wanted) for a in operands]
        factor = named.get("alpha")
        if isinstance(factor, fx.Node):
            del named["alpha"]
            factor = _in_type(emit, factor, wanted) if wanted.is_floating_point else factor
            operands[1] = emit(aten.mul.Tensor, operands[1], factor)
        made = emit(other, *operands, **named)
        return _cast(emit, made, result)

    return write


def _computed_in(node: fx.Node) -> torch.dtype:
    """Return the type of the operands: a number in a tensor's place does not widen it.

    PyTorch computes halves with a number in single precision, and compares in their own type.
    """
    result: torch.dtype = node.meta["val"].dtype
    if result in {torch.float16, torch.bfloat16}:
        return torch.float32
    if result != torch.bool:
        return result
    given = [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args[:2]]
    return torch.result_type(*(_sample(value) for value in given))


def _sample(value: Any) -> Any:
    """Return a number of the kind of ``value``, a tensor as it is."""
    kinds = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}
    return kinds.get(type(value), value)


def _in_type(emit: Emit, operand: Any, dtype: torch.dtype) -> Any:
    value = operand.meta["val"] if isinstance(operand, fx.Node) else None
    if value is None or value.dtype in (dtype, torch.bool) or value.is_complex():
        return operand
    return emit(aten._to_copy.default, operand, dtype=dtype)


def _like(emit: Emit, like: fx.Node, number: Any) -> fx.Node:
    dtype = torch.float64 if isinstance(number, float) else torch.int64
    zero = emit(aten.full_like.default, like, number, dtype=dtype)
    return zero


def _cast(emit: Emit, made: fx.Node, dtype: torch.dtype) -> fx.Node:
    if made.meta["val"].dtype == dtype:
        return made
    return emit(aten._to_copy.default, made, dtype=dtype)


def _chosen(emit: Emit, node: fx.Node, condition: fx.Node, x: fx.Node, y: fx.Node) -> fx.Node:
    return emit(aten.where.self, _cast(emit, condition, torch.bool), x, y)


def _select(emit: Emit, node: fx.Node, x: fx.Node, dim: int, place: Any) -> fx.Node | None:
    extent = x.meta["val"].shape[dim]
    places = emit(aten.reshape.default, _wrapped(emit, node, place, extent), [1])
    found = emit(aten.index_select.default, x, dim, places)
    return emit(aten.squeeze.dims, found, [dim])


def _wrapped(emit: Emit, node: fx.Node, place: fx.Node, extent: Any) -> fx.Node:
    """Count a negative place from the end."""
    if not isinstance(extent, int):
        return place
    behind = emit(aten.add.Tensor, place, extent)
    return emit(aten.where.self, emit(aten.lt.Scalar, place, 0), behind, place)


def _slice(  # noqa: PLR0917 (the operator's own signature)
    emit: Emit,
    node: fx.Node,
    x: fx.Node,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> fx.Node | None:
    """Write a slice whose length is known: it begins anywhere."""
    length = node.meta["val"].shape[dim]
    extent = x.meta["val"].shape[dim]
    if not isinstance(length, int) or not isinstance(start, fx.Node):
        return None
    first = _wrapped(emit, node, start, extent)
    places = emit(aten.add.Tensor, _counted(emit, first, length, step), first)
    return emit(aten.index_select.default, x, dim, places)


def _counted(emit: Emit, like: fx.Node, length: int, step: int = 1) -> fx.Node:
    """Return ``0, step, 2 step, ...``, made of ones so that it is a tensor of the program."""
    one = emit(aten.full_like.default, like, step)
    ones = emit(aten.expand.default, emit(aten.reshape.default, one, [1]), [length])
    return emit(aten.sub.Tensor, emit(aten.cumsum.default, ones, 0), step)


def _select_scatter(  # noqa: PLR0917 (the operator's own signature)
    emit: Emit, node: fx.Node, x: fx.Node, src: fx.Node, dim: int, place: Any
) -> Any:
    value = x.meta["val"]
    if not isinstance(value.shape[dim], int):
        return None
    there = _wrapped(emit, node, place, value.shape[dim])
    hit = emit(aten.eq.Tensor, _counted(emit, there, value.shape[dim]), there)
    return emit(
        aten.where.self,
        _along(emit, hit, dim, value.dim()),
        emit(aten.unsqueeze.default, src, dim),
        x,
    )


def _slice_scatter(  # noqa: PLR0917 (the operator's own signature)
    emit: Emit,
    node: fx.Node,
    x: fx.Node,
    src: fx.Node,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Any:
    extent, length = x.meta["val"].shape[dim], src.meta["val"].shape[dim]
    if step != 1 or not isinstance(extent, int) or not isinstance(length, int):
        return None
    if not isinstance(start, fx.Node):
        return None
    first = _wrapped(emit, node, start, extent)
    places = emit(aten.sub.Tensor, _counted(emit, first, extent), first)
    inside = emit(aten.clamp.default, places, 0, length - 1)
    hit = _along(emit, emit(aten.eq.Tensor, places, inside), dim, x.meta["val"].dim())
    return emit(aten.where.self, hit, emit(aten.index_select.default, src, dim, inside), x)


def _along(emit: Emit, line: fx.Node, dim: int, rank: int) -> fx.Node:
    shape = [1] * rank
    shape[dim] = -1
    return emit(aten.reshape.default, line, shape)


def _full(emit: Emit, node: fx.Node, shape: Sequence[Any], number: Any, **_: Any) -> Any:
    if not isinstance(number, fx.Node) or any(_is_tensor(e) for e in shape):
        return None
    return emit(aten.expand.default, _cast(emit, number, node.meta["val"].dtype), list(shape))


def _is_tensor(extent: Any) -> bool:
    return isinstance(extent, fx.Node) and isinstance(extent.meta["val"], torch.Tensor)


def _full_like(emit: Emit, node: fx.Node, x: fx.Node, number: fx.Node, **_: Any) -> Any:
    zeros = emit(aten.full_like.default, x, 0, dtype=number.meta["val"].dtype)
    if number.meta["val"].dtype == torch.bool:
        return _cast(emit, emit(aten.logical_or.default, zeros, number), node.meta["val"].dtype)
    return _cast(emit, emit(aten.add.Tensor, zeros, number), node.meta["val"].dtype)


def _scalar_tensor(emit: Emit, node: fx.Node, number: fx.Node, **_: Any) -> fx.Node:
    return _cast(emit, number, node.meta["val"].dtype)


def _leaky(emit: Emit, node: fx.Node, x: fx.Node, slope: Any = 0.01) -> Any:
    dtype = node.meta["val"].dtype
    if dtype not in _WIDE:
        return None
    below = emit(aten.mul.Tensor, x, _in_type(emit, slope, dtype))
    return emit(aten.where.self, emit(aten.gt.Scalar, x, 0), x, below)


def _scaled_sum(product: Any) -> Callable[..., Any]:
    """Return what writes ``beta * bias + alpha * product(a, b)``."""

    def write(
        emit: Emit,
        node: fx.Node,
        bias: fx.Node,
        a: fx.Node,
        b: fx.Node,
        *,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Any:
        dtype = node.meta["val"].dtype
        if dtype not in _WIDE:
            return None
        factors = [_in_type(emit, factor, dtype) for factor in (beta, alpha)]
        terms = [bias, emit(product, a, b)]
        scaled = [emit(aten.mul.Tensor, x, f) for x, f in zip(terms, factors, strict=True)]
        return emit(aten.add.Tensor, *scaled)

    return write


_WIDE = (torch.float32, torch.float64)
"""Types in which a factor of its own does not round once more."""

USERS: dict[Any, Callable[..., Any]] = {
    **{scalar: _elementwise(other) for scalar, other in _SCALAR_FORMS.items()},
    aten.leaky_relu.default: _leaky,
    aten.addmm.default: _scaled_sum(aten.mm.default),
    aten.select.int: _select,
    aten.where.self: _chosen,
    aten.slice.Tensor: _slice,
    aten.select_scatter.default: _select_scatter,
    aten.slice_scatter.default: _slice_scatter,
    aten.full.default: _full,
    aten.full_like.default: _full_like,
    aten.scalar_tensor.default: _scalar_tensor,
    aten.fill.Scalar: _full_like,
}
"""By operator: what writes it, of its arguments with tensors in the place of numbers; it returns
nothing where that cannot be."""

OPERANDS = frozenset(_SCALAR_FORMS) | {
    *(aten.full_like.default, aten.fill.Scalar, aten.leaky_relu.default, aten.addmm.default),
}
"""Operators whose numbers are values: those of others are places and extents of shapes."""
