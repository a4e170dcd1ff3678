"""Reshapes, transposes and slices as views of the tensor behind them."""

from __future__ import annotations

from typing import Any

from tvm import relax

from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, shape_of, static_shape


def seen(
    rewriter: Rewriter, operand: Any, *, slices: bool = True, symbols: bool = False
) -> tuple[View, Any] | None:
    """Return ``operand`` as a view of the tensor behind its reshapes, transposes and slices.

    Without ``slices``, that is the tensor behind the last of these. Extents are static unless they
    may be ``symbols``.
    """
    steps: list[tuple[str, tuple[Any, ...]]] = []

    def extents(expr: Any) -> tuple[Any, ...] | None:
        return tuple(shape_of(expr) or ()) or None if symbols else static_shape(expr)

    shape = extents(operand)
    while shape is not None:
        source = rewriter.resolve(operand)
        step = step_of(rewriter, source, shape)
        if step is None or not (slices or step[0] != "strided_slice"):
            return View(shape, tuple(reversed(steps))), operand
        steps.append(step)
        operand = source.args[0]
        shape = extents(operand)
    return None


def step_of(
    rewriter: Rewriter, call: relax.Call, shape: tuple[Any, ...]
) -> tuple[str, tuple[Any, ...]] | None:
    """Return the step of a view that ``call``, with a result of ``shape``, is, if it is one.

    Slices have static extents.
    """
    name = op_name(call)
    if name not in ("reshape", "permute_dims", "strided_slice"):
        return None
    if shape_of(call.args[0]) is None:
        return None
    if name == "reshape":
        return name, shape
    if name == "permute_dims":
        axes = call.attrs.axes
        order = range(len(shape))[::-1] if axes is None else axes
        return name, tuple(int(a) % len(shape) for a in order)
    before = static_shape(call.args[0])
    if before is None or static_shape(call) is None:
        return None
    begins = begins_of(call, before, shape)
    return None if begins is None else (name, (*begins, *shape))


def begins_of(
    call: relax.Call, before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return where a slice begins on each axis, ``None`` if it skips or its bounds are unknown."""
    axes, starts, _ends, *strides = (_numbers(a) for a in call.args[1:])
    if None in (*axes, *starts) or any(set(s) != {1} for s in strides):
        return None
    begins = [0] * len(before)
    for axis, start in zip(axes, starts, strict=True):
        end = before[axis]
        begins[axis] = min(max(start + end if start < 0 else start, 0), end)
    inside = all(b + n <= e for b, n, e in zip(begins, after, before, strict=True))
    return tuple(begins) if inside else None


def _numbers(values: relax.Tuple) -> list[Any]:
    return [int(v.value) if hasattr(v, "value") else None for v in values.fields]
