"""Reshapes, transposes and slices as views of the tensor behind them."""

from __future__ import annotations

from typing import Any, TypeAlias

from tvm import relax, tirx

from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.tensors.reshape import divides_by_symbols
from tvm_sparse.passes.graph.computed_extents import computed_extents, with_variables
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    op_name,
    same_extent,
    shape_of,
    static_shape,
)

Shape: TypeAlias = tuple[Any, ...]
"""Extents, symbolic ones among them."""

Seen: TypeAlias = tuple[View, Any]
"""An operand as a view, and what is viewed."""

Names: TypeAlias = list[tuple[Any, tirx.Var]]
"""Computed extents, and the variables that stand for them in views."""


def seen(
    rewriter: Rewriter,
    operand: Any,
    *,
    slices: bool = True,
    symbols: bool = False,
    repeats: bool = False,
    quotients: bool = True,
) -> tuple[View, Any] | None:
    """Return ``operand`` as a view of the tensor behind its reshapes, transposes and slices.

    Without ``slices``, that is the tensor behind the last of these. Extents are static unless they
    may be ``symbols``. What repeats elements is no view unless it may have ``repeats``. Without
    ``quotients``, no index is divided by a symbol, which takes longer than to copy an element.
    """
    steps: list[tuple[str, tuple[Any, ...]]] = []

    def extents(expr: Any) -> tuple[Any, ...] | None:
        return tuple(shape_of(expr) or ()) or None if symbols else static_shape(expr)

    shape = extents(operand)
    while shape is not None:
        source = rewriter.resolve(operand)
        step = step_of(rewriter, source, shape)
        if repeats and op_name(source) == "broadcast_to" and shape_of(source.args[0]) is not None:
            step = "broadcast_to", shape
        divides = step is not None and not quotients and _divides(step, shape_of(source.args[0]))
        if step is None or divides or not (slices or step[0] != "strided_slice"):
            return View(shape, tuple(reversed(steps))), operand
        steps.append(step)
        operand = source.args[0]
        shape = extents(operand)
    return None


def _divides(step: tuple[str, Shape], before: Any) -> bool:
    """Whether a step from a tensor of extents ``before`` divides an index by a symbol."""
    return step[0] == "reshape" and before is not None and divides_by_symbols(before, step[1])


def step_of(
    rewriter: Rewriter, call: relax.Call, shape: tuple[Any, ...]
) -> tuple[str, tuple[Any, ...]] | None:
    """Return the step of a view that ``call``, with a result of ``shape``, is, if it is one.

    Axes that are sliced have known extents.
    """
    name = op_name(call)
    if name not in ("reshape", "permute_dims", "strided_slice"):
        return None
    before = shape_of(call.args[0])
    if before is None:
        return None
    if name == "reshape":
        return name, shape
    if name == "permute_dims":
        axes = call.attrs.axes
        order = range(len(shape))[::-1] if axes is None else axes
        return name, tuple(int(a) % len(shape) for a in order)
    begins = begins_of(call, tuple(before), shape)
    return None if begins is None else (name, (*begins, *shape))


def begins_of(call: relax.Call, before: Shape, after: Shape) -> tuple[int, ...] | None:
    """Return where a slice begins on each axis, ``None`` if it skips or its bounds are unknown.

    Open axes are those that it leaves whole.
    """
    axes, starts, _ends, *strides = (_numbers(a) for a in call.args[1:])
    if None in (*axes, *starts) or any(set(s) != {1} for s in strides):
        return None
    begins = [0] * len(before)
    for axis, start in zip(axes, starts, strict=True):
        end = before[axis]
        if isinstance(end, int):
            begins[axis] = min(max(start + end if start < 0 else start, 0), end)
        elif start:
            return None
    inside = all(map(_inside, begins, after, before))
    return tuple(begins) if inside else None


def _inside(begin: int, extent: Any, end: Any) -> bool:
    """Whether a slice ends where its axis does, or before."""
    if isinstance(extent, int) and isinstance(end, int):
        return begin + extent <= end
    return begin == 0 and same_extent(extent, end)


def _numbers(values: relax.Tuple) -> list[Any]:
    return [int(v.value) if hasattr(v, "value") else None for v in values.fields]


def whole(operand: Any) -> Seen:
    """Return an operand as it is, seen through nothing."""
    return View(tuple(shape_of(operand) or ())), operand


def named(output: Shape, *operands: Seen) -> tuple[Shape, list[Seen], Names] | None:
    """Return what a function has, with a variable in the place of each computed extent, and these.

    None where an extent cannot be told from those of the operands.
    """
    names = computed_extents(extent for view, _ in operands for extent in view.shape)

    def renamed(extents: Shape) -> Shape:
        return tuple(e if isinstance(e, int) else with_variables(e, names) for e in extents)

    def view(seen_: View) -> View:
        steps = (
            (step, argument if step == "permute_dims" else renamed(argument))
            for step, argument in seen_.steps
        )
        return View(renamed(seen_.shape), tuple(steps))

    output, views = renamed(output), [view(seen_) for seen_, _ in operands]
    known = [(one, operand) for one, (_, operand) in zip(views, operands, strict=True)]
    return (output, known, names) if _bound(output, *views) else None


def _bound(output: Shape, *operands: View) -> bool:
    """Whether each symbol is an extent of an operand, which tells what it is."""
    plain = [e for view in operands for e in view.shape if isinstance(e, tirx.Var)]
    shapes = [output, *(shape for view in operands for shape in view.shapes)]
    extents = [extent for shape in shapes for extent in shape if not isinstance(extent, int)]
    used = [var for extent in extents for var in tirx.analysis.undefined_vars(extent)]
    return all(any(var.same_as(known) for known in plain) for var in used)
