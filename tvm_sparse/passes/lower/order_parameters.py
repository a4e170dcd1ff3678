"""Functions take the numbers that their extents need in one order, whatever TVM's addresses are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from tvm_sparse.passes.graph.called import arguments_of, calling
from tvm_sparse.passes.graph.rewrite import shape_of_type


@tvm.transform.module_pass(opt_level=0, name="OrderParameters")
class OrderParameters:
    """Order numbers among parameters by their first use; equal functions become one.

    before: ``f(X: (b, h * w), w, h, Y)`` and ``f1(X: (b, h * w), h, w, Y)``
    after:  ``f(X: (b, h * w), h, w, Y)``

    TVM collects these numbers in a set, whose order is that of addresses in memory, which two
    compilations do not share: artifacts of one model would differ. Functions are numbered anew.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions, and calls that give the numbers in their order."""
        called = arguments_of(mod)
        if all(len(_numbers(mod[name], called[name])) < 2 for name in called):
            return mod
        functions = {n: f for n, f in mod.functions_items() if n.name_hint not in called}
        names = _Names(set(called))
        orders: dict[str, tuple[ir.GlobalVar, list[int]]] = {}
        for name, arguments in called.items():
            order = _order(mod[name], arguments)
            func = _in_order(mod[name], order)
            orders[name] = names.of(name, func), order

        def instead(name: str, operands: Sequence[Any]) -> tuple[ir.GlobalVar, list[Any]] | None:
            if name not in orders:
                return None
            renamed, order = orders[name]
            return renamed, [operands[i] for i in order[: len(operands)]]

        ordered = ir.IRModule({**functions, **names.functions}, attrs=mod.attrs)
        return calling(ordered, instead)


class _Names:
    """Functions by names like those that they had, numbered in the order in which they come."""

    def __init__(self, old: set[str]) -> None:
        self.old = old
        self.functions: dict[ir.GlobalVar, tirx.PrimFunc] = {}
        self._counts: dict[str, int] = {}
        self._equal: dict[int, list[ir.GlobalVar]] = {}

    def of(self, old: str, func: tirx.PrimFunc) -> ir.GlobalVar:
        """Return the name of ``func``, which is that of an equal function if one came before."""
        same = self._equal.setdefault(tvm_ffi.structural_hash(func), [])
        for name in same:
            if tvm_ffi.structural_equal(self.functions[name], func):
                return name
        base = self._base(old)
        count = self._counts[base] = self._counts.get(base, -1) + 1
        name = ir.GlobalVar(f"{base}{count or ''}")
        relax.expr._update_type(name, func.ty)
        self.functions[name] = func
        same.append(name)
        return name

    def _base(self, name: str) -> str:
        """Return ``name`` without the number that made it unique: ``add`` of ``add2``."""
        base = name.rstrip("0123456789")
        return base if base in self.old else name


def _numbers(func: tirx.PrimFunc, arguments: int) -> list[int]:
    """Return the positions of the extents among the ``arguments`` of ``func``."""
    params = enumerate(func.params[:arguments])
    return [i for i, p in params if shape_of_type(p.ty) is None and str(p.ty.dtype) == "int64"]


def _order(func: tirx.PrimFunc, arguments: int) -> list[int]:
    """Return the positions of the parameters of ``func`` in their new order."""
    first: dict[Any, int] = {}

    def seen(var: Any) -> None:
        first.setdefault(var, len(first))

    for param in func.params:
        for extent in shape_of_type(param.ty) or ():
            if not isinstance(extent, int):
                tvm_ffi.structural_walk(extent, (tirx.Var, seen))
    tvm_ffi.structural_walk(func.body, (tirx.Var, seen))
    positions = _numbers(func, arguments)
    by_use = sorted(positions, key=lambda i: first.get(func.params[i], len(first)))
    moved = dict(zip(positions, by_use, strict=True))
    return [moved.get(i, i) for i in range(len(func.params))]


def _in_order(func: tirx.PrimFunc, order: list[int]) -> tirx.PrimFunc:
    params = [func.params[i] for i in order]
    return tirx.PrimFunc(params, func.body, func.ret_type, attrs=func.attrs)
