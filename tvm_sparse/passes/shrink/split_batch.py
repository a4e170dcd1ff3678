"""A large batch becomes parts whose activations stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.graph.builders import blocks_ended
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import (
    constant,
    name_of,
    op_name,
    same_shape,
    shape_of,
    shape_of_type,
    static_shape,
)
from tvm_sparse.passes.shrink.batch import batch_of, handed_on, part_of

PARTS = "tvm_sparse.parts"
"""Attribute of ``main``: how many times its batch goes into that of the model, or :data:`EACH`."""

EACH = 0
"""Instead of a number of parts: as many as the batch, which is open, has items."""


def parts_of(mod: tvm.IRModule) -> int:
    """Return in how many parts a batch goes through ``main``, :data:`EACH` if that is open."""
    return int(mod["main"].attrs.get(PARTS, 1))


class WholeBatch(Exception):
    """Some operator does not treat the items of a batch one by one."""


@tvm.transform.module_pass(opt_level=0, name="SplitBatch")
@dataclass(frozen=True)
class SplitBatch:
    """Make ``main`` a program for a part of the batch, where no operator mixes its items.

    before: ``main(x: (16, 3, 224, 224))`` --> after: ``main(x: (1, 3, 224, 224))``, parts = 16

    Every layer of a large batch of images writes more than the cache holds and the next one reads
    it back from memory; a part goes through all layers at once. :class:`CallParts` makes the
    program for the whole batch again. A batch is left whole where its activations are small,
    and where layers hand on less than parts would copy. It is left whole, too, where it cannot be
    followed through every operator. A symbolic one is for
    :class:`~tvm_sparse.passes.shrink.split_open_batch.SplitOpenBatch`.

    Parameters
    ----------
    limit
        Bytes that the largest result of a layer in a part may take.
    least
        How many elements layers hand on to others, at least, for each of the inputs and outputs:
        these are copied, part by part.
    """

    limit: int
    least: float = 0.0

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with a ``main`` for a part of the batch."""
        main = mod["main"]
        batch = batch_of(main)
        blocks = list(main.body.blocks)
        if len(blocks) != 1:
            return mod
        part = part_of(batch, [*main.params, *(b.var for b in blocks[0].bindings)], self.limit)
        if part == batch or handed_on(main) < self.least:
            return mod
        try:
            split = Split(batch, part).function(main)
        except WholeBatch:
            return mod
        functions = {**dict(mod.functions_items()), mod.get_global_var("main"): split}
        return tvm.IRModule(functions, attrs=mod.attrs)


class Split:
    """Emits ``main`` again for ``part`` of ``batch`` items; TVM infers the other shapes."""

    def __init__(self, batch: int, part: int) -> None:
        self.batch, self.part = batch, part
        self.new: dict[Any, Any] = {}
        self.batched: set[Any] = set()
        self.builder = relax.BlockBuilder()

    def function(self, main: relax.Function) -> relax.Function:
        """Return the function; raise :class:`WholeBatch` where items are mixed."""
        for param in main.params:
            shape = (self.part, *(static_shape(param) or ())[1:])
            self.new[param] = relax.Var(param.name, relax.TensorType(shape, param.ty.dtype))
        self.batched |= set(main.params)
        params = [self.new[param] for param in main.params]
        attrs = {**dict(main.attrs.items()), PARTS: self.batch // self.part}
        failed: WholeBatch | None = None
        function = self.builder.function("main", params, attrs=attrs)
        with blocks_ended(self.builder), function:
            with self.builder.dataflow():
                try:
                    result = self._result(main)
                except WholeBatch as error:  # the builder wants its blocks to end
                    failed, result = error, params[0]
                out = self.builder.emit_output(result)
            self.builder.emit_func_output(out)
        if failed:
            raise failed
        return self.builder.finalize()["main"]

    def _result(self, main: relax.Function) -> Any:
        """Emit the bindings of ``main`` and return its result."""
        for binding in main.body.blocks[0].bindings:
            if isinstance(binding, relax.MatchCast):  # it says extents of the whole batch
                raise WholeBatch
            self._emit(binding.var, binding.value)
        result = main.body.body
        if not all(map(self._is_batched, getattr(result, "fields", [result]))):
            raise WholeBatch
        return self._of(result)

    def _emit(self, var: relax.Var, value: relax.Expr) -> None:
        if self._is_batched(value):
            self.batched.add(var)
            if isinstance(value, relax.Call):
                value = self._smaller(value)
        self.new[var] = self.builder.emit(self._of(value))
        if var in self.batched:
            self._check(var.ty, self.new[var].ty)

    def _smaller(self, call: relax.Call) -> relax.Call:
        """Return the call for a part of the batch, its operands not yet replaced."""
        name, rank = op_name(call), len(shape_of(call) or ())
        rule = RULES.get(name)
        flags = [self._is_batched(arg) for arg in call.args]
        if rule is None or not rule(call, flags):
            raise WholeBatch
        if name == "reshape":
            shape = relax.ShapeExpr([self.part, *list(call.args[1].values)[1:]])
            return relax.Call(call.op, [call.args[0], shape], call.attrs)
        if name in (*ELEMENTWISE, "concat"):
            return relax.Call(call.op, [self._aligned(a, rank) for a in call.args], call.attrs)
        return call

    def _aligned(self, arg: relax.Expr, rank: int) -> Any:
        """Return an operand that is joined with batched ones of ``rank`` axes, for a part."""
        if isinstance(arg, relax.Tuple):
            return relax.Tuple([self._aligned(field, rank) for field in arg.fields])
        shape = static_shape(arg) or ()
        if self._is_batched(arg):
            if len(shape) != rank:
                raise WholeBatch
        elif len(shape) == rank and shape[0] == self.batch:
            return self._repeated(arg)
        return arg

    def _repeated(self, const: Any) -> Any:
        """Return the first items of a constant in which all items are equal."""
        if not isinstance(const, tvm.ir.GenericConst):
            raise WholeBatch
        value = array_of(const)
        if not (value == value[:1]).all():
            raise WholeBatch
        return constant(np.ascontiguousarray(value[: self.part]), name_of(const))

    def _is_batched(self, expr: relax.Expr) -> bool:
        if isinstance(expr, relax.Tuple):
            return any(self._is_batched(field) for field in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self._is_batched(expr.tuple_value)
        if isinstance(expr, relax.Call):
            return any(self._is_batched(arg) for arg in expr.args)
        return expr in self.batched if isinstance(expr, relax.Var) else False

    def _of(self, expr: relax.Expr) -> Any:
        """Return ``expr`` with the variables of the new function."""
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._of(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            return relax.TupleGetItem(self._of(expr.tuple_value), expr.index)
        if isinstance(expr, relax.Call):
            return relax.Call(expr.op, [self._of(arg) for arg in expr.args], expr.attrs)
        return self.new.get(expr, expr) if isinstance(expr, relax.Var) else expr

    def _check(self, before: Any, after: Any) -> None:
        """Every tensor must have lost items of its first axis, and nothing else."""
        if isinstance(before, relax.TupleType):
            for old, new in zip(before.fields, after.fields, strict=True):
                self._check(old, new)
            return
        old, new = shape_of_type(before), shape_of_type(after)
        if not old or old[0] != self.batch or not same_shape(new, [self.part, *old[1:]]):
            raise WholeBatch


Rule = Callable[[Any, list[bool]], bool]
"""``(call, which arguments are batched) -> whether items of the first axis stay apart``."""


def _always(_call: relax.Call, _flags: list[bool]) -> bool:
    return True


def _window(call: relax.Call, flags: list[bool]) -> bool:
    """Convolutions and poolings: the batch is the axis N; weights belong to all items."""
    layout = str(getattr(call.attrs, "data_layout", "") or getattr(call.attrs, "layout", ""))
    return layout.startswith("N") and not any(flags[1:])


def _matmul(call: relax.Call, flags: list[bool]) -> bool:
    left, right = (len(shape_of(arg) or ()) for arg in call.args)
    if flags == [True, False]:
        return left >= 2 and right <= 2
    if flags == [False, True]:
        return left == 2 and right >= 3
    return all(flags) and left == right >= 3


def _other_axes(call: relax.Call, flags: list[bool]) -> bool:
    """Operators along the axes that their attributes name."""
    named = call.attrs.axes if hasattr(call.attrs, "axes") else call.attrs.axis
    rank = len(shape_of(call.args[0]) or ()) or len(shape_of(call) or ())
    if named is None or rank == 0:
        return False
    axes = [int(axis) % rank for axis in (named if hasattr(named, "__len__") else [named])]
    return 0 not in axes and not any(flags[1:])


def _joined(call: relax.Call, _flags: list[bool]) -> bool:
    rank = len(shape_of(call) or ())
    return call.attrs.axis is not None and rank > 0 and int(call.attrs.axis) % rank != 0


def _permute(call: relax.Call, _flags: list[bool]) -> bool:
    return call.attrs.axes is not None and int(call.attrs.axes[0]) == 0


def _reshape(call: relax.Call, flags: list[bool]) -> bool:
    old, new = (shape_of(expr) or [None] for expr in (call.args[0], call))
    known = isinstance(call.args[1], relax.ShapeExpr) and old[0] is not None
    return flags[0] and known and bool(old[0] == new[0])


def _take(call: relax.Call, flags: list[bool]) -> bool:
    """Rows of a table for batched indices, or fixed places of batched tensors."""
    if call.attrs.axis is None:
        return False
    first = int(call.attrs.axis) % len(shape_of(call.args[0]) or (0,)) == 0
    return flags == [not first, first]


def _slice(call: relax.Call, flags: list[bool]) -> bool:
    rank = len(shape_of(call.args[0]) or ())
    axes = getattr(call.args[1], "fields", None)
    if axes is None or rank == 0 or any(flags[1:]):
        return False
    return all(int(getattr(axis, "value", axis)) % rank != 0 for axis in axes)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _always),
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _window),
    **dict.fromkeys(("nn.max_pool2d", "nn.avg_pool2d", "nn.adaptive_avg_pool2d"), _window),
    **dict.fromkeys(("mean", "sum", "max", "min", "prod", "variance"), _other_axes),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm"), _other_axes),
    "concat": _joined,
    "matmul": _matmul,
    "permute_dims": _permute,
    "reshape": _reshape,
    "strided_slice": _slice,
    "take": _take,
}
"""The operators that a batch can be followed through."""
