"""An open batch goes through the network item by item where an item fills the cache."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from tvm_sparse.passes.graph.rewrite import op_name, shape_of_type
from tvm_sparse.passes.shrink.batch import handed_on
from tvm_sparse.passes.shrink.split_batch import EACH, PARTS, Split, WholeBatch
from tvm_sparse.schedules.blocks import nodes

STAND_IN = 1_000_003
"""A batch that no model has, a prime number: where it is left, something depends on the batch."""


@tvm.transform.module_pass(opt_level=0, name="SplitOpenBatch")
@dataclass(frozen=True)
class SplitOpenBatch:
    """Make ``main`` a program for one item of an open batch, where no operator mixes its items.

    before: ``main(x: (n, 3, 224, 224))`` --> after: ``main(x: (1, 3, 224, 224))``, parts = each

    As :class:`~tvm_sparse.passes.shrink.split_batch.SplitBatch`, for the same reason, with all
    extents of the layers fixed besides. :class:`~tvm_sparse.passes.finish.call_items.CallItems`
    makes the program for the batch again. The batch must be the only open extent, and nothing but
    shapes may depend on it.

    Parameters
    ----------
    limit
        Bytes that the largest result of a layer for one item must take, at least.
    least
        As for ``SplitBatch``.
    """

    limit: int
    least: float = 0.0

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with a ``main`` for one item."""
        symbol = _symbol(mod["main"])
        if symbol is None:
            return mod
        fixed = relax.transform.BindSymbolicVars({symbol: STAND_IN}, "main")(mod)["main"]
        if handed_on(fixed) < self.least or _largest(fixed) < self.limit:
            return mod
        try:
            split = Split(STAND_IN, 1).function(fixed).with_attr(PARTS, EACH)
        except WholeBatch:
            return mod
        if any(STAND_IN in shape for shape in _shapes(split)):
            return mod
        functions = {**dict(mod.functions_items()), mod.get_global_var("main"): split}
        return tvm.IRModule(functions, attrs=mod.attrs)


def _symbol(main: relax.Function) -> tirx.Var | None:
    """Return the symbol of the batch if it is all that is open, and only in shapes."""
    inputs = [shape_of_type(param.ty) or [0] for param in main.params]
    symbol = inputs[0][0] if inputs else None
    plain = ["float" in str(param.ty.dtype) for param in main.params]
    if not isinstance(symbol, tirx.Var) or len(main.body.blocks) != 1:
        return None
    for shape, rows in zip(inputs, plain, strict=True):
        if len(shape) <= 1 + rows or not _begins(shape, symbol):
            return None
    values = [binding.value for binding in main.body.blocks[0].bindings]
    known = all(isinstance(binding, relax.VarBinding) for binding in main.body.blocks[0].bindings)
    return symbol if known and all(_only_shaped(value, symbol) for value in values) else None


def _only_shaped(value: Any, symbol: tirx.Var) -> bool:
    """Whether a bound value mentions ``symbol`` as the first extent of a shape, or not at all."""
    if isinstance(value, relax.Call):
        reshaped = op_name(value) == "reshape"
        return all(_only_shaped(arg, symbol) for arg in value.args[: 1 if reshaped else None]) and (
            not reshaped or _begins(list(value.args[1].values), symbol)
        )
    if isinstance(value, relax.Tuple):
        return all(_only_shaped(field, symbol) for field in value.fields)
    if isinstance(value, relax.Var | relax.TupleGetItem | ir.GenericConst):
        return True
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (tirx.Var, found.append))
    return symbol not in found


def _begins(shape: list[Any], symbol: tirx.Var) -> bool:
    """Whether ``symbol`` is the first extent of a shape whose others are numbers."""
    numbers = all(isinstance(extent, int | tirx.IntImm) for extent in shape[1:])
    return bool(shape) and bool(tvm_ffi.structural_equal(shape[0], symbol)) and numbers


def _largest(fixed: relax.Function) -> float:
    """Return the bytes of the largest value, of one item."""
    sizes = [math.prod(shape) for shape in _shapes(fixed) if shape[:1] == [STAND_IN]]
    return 4 * max(sizes, default=0) / STAND_IN


def _shapes(func: relax.Function) -> list[list[Any]]:
    """Return the shapes of the variables of ``func``."""
    types = [getattr(var.ty, "fields", [var.ty]) for var in nodes(func, relax.Var)]
    return [shape for fields in types for ty in fields if (shape := shape_of_type(ty))]
