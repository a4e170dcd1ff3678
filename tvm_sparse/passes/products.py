"""Products of two activations become calls of our operator, layouts around them part of it."""

from __future__ import annotations

from typing import Any, TypeAlias

import tvm
from tvm import relax

from tvm_sparse.engine.registry import supported_singly
from tvm_sparse.ops.batch_matmul import View, batch_matmul
from tvm_sparse.passes.convolution import numerics_of
from tvm_sparse.passes.rewrite import (
    Rewriter,
    call_function,
    op_name,
    shape_of,
    static_shape,
)

LAYOUTS = ("reshape", "permute_dims")
"""What a product of two activations does while it stores, where nothing else reads its result."""

Views: TypeAlias = tuple[View, View, View]
"""How a product of two activations sees its operands, and how its result is seen."""


class Products:
    """The products of two activations of one function, lowered for ``target``."""

    def __init__(self, target: tvm.target.Target, uses: dict[Any, int]) -> None:
        self.target = target
        self.uses = uses
        self.made: dict[tvm.ir.GlobalVar, Views] = {}

    def lower(self, sweep: Rewriter, call: relax.Call) -> Any | None:
        """Lower a product of two activations; transposes before it are read in place."""
        output = static_shape(call)
        left, right = (_view(sweep, operand) for operand in call.args)
        if left is None or right is None or output is None:
            return None
        if not supported_singly(numerics_of(call), self.target):
            return None
        if any(len(shape_of(a) or ()) < 2 for a in call.args):
            return None
        return self._product(sweep, call, (left[0], right[0], View(output)), [left[1], right[1]])

    def _product(self, sweep: Rewriter, call: relax.Call, views: Views, operands: list[Any]) -> Any:
        """Emit a product of two activations that has the result of ``call``."""
        func = batch_matmul(*views, self.target)
        product = call_function(sweep, func, operands, call.ty, "matmul")
        self.made[product.args[0]] = views
        return product

    def layout(self, sweep: Rewriter, call: relax.Call) -> Any | None:
        """Let a product write its rows where ``call``, the only reader, puts them."""
        if self.uses.get(sweep.original.args[0]) != 1:
            return None
        product, shape = sweep.resolve(call.args[0]), static_shape(call)
        views = self.made.get(product.args[0]) if op_name(product) == "call_tir" else None
        step = _view_step(sweep, call, shape) if views and shape else None
        if views is None or step is None:
            return None
        left, right, output = views
        output = View(output.shape, (*output.steps, step))
        if not output.keeps_rows():
            return None
        return self._product(sweep, call, (left, right, output), list(product.args[1].fields))


def _view(sweep: Rewriter, operand: Any) -> tuple[View, Any] | None:
    """Return ``operand`` as a view of the tensor behind its reshapes, transposes and slices."""
    steps: list[tuple[str, tuple[int, ...]]] = []
    shape = static_shape(operand)
    while shape is not None:
        source = sweep.resolve(operand)
        step = _view_step(sweep, source, shape)
        if step is None:
            return View(shape, tuple(reversed(steps))), operand
        steps.append(step)
        operand = source.args[0]
        shape = static_shape(operand)
    return None


def _view_step(
    sweep: Rewriter, call: relax.Call, shape: tuple[int, ...]
) -> tuple[str, tuple[int, ...]] | None:
    """Return the step of a view that ``call``, with a result of ``shape``, is, if it is one."""
    name = op_name(call)
    if name not in ("reshape", "permute_dims", "strided_slice"):
        return None
    before = static_shape(call.args[0])
    if before is None:
        return None
    if name == "reshape":
        return name, shape
    if name == "permute_dims":
        axes = call.attrs.axes
        order = range(len(shape))[::-1] if axes is None else axes
        return name, tuple(int(a) % len(shape) for a in order)
    begins = _begins(call, before, shape)
    return None if begins is None else (name, (*begins, *shape))


def _begins(
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
