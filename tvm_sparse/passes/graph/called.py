"""Functions that are only called, and calls of others in their place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax

from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite

_CALLS = ("call_tir", "call_tir_inplace")


def arguments_of(mod: tvm.IRModule) -> dict[str, int]:
    """Return how many arguments each function that is only called gets, in order of calls."""
    found: dict[str, int] = {}
    calls: Counter[str] = Counter()
    uses: Counter[str] = Counter()

    def look(expr: Any) -> None:
        if op_name(expr) in _CALLS and isinstance(expr.args[1], relax.Tuple):
            name = expr.args[0].name_hint
            calls[name] += 1
            found.setdefault(name, len(expr.args[1].fields))

    def used(var: ir.GlobalVar) -> None:
        uses[var.name_hint] += 1

    for func in mod.functions.values():
        tvm_ffi.structural_walk(func, ((ir.Call, look), (ir.GlobalVar, used)))
    return {name: count for name, count in found.items() if calls[name] == uses[name]}


def calling(
    mod: tvm.IRModule,
    instead: Callable[[str, Sequence[Any]], tuple[ir.GlobalVar, Sequence[Any]] | None],
) -> tvm.IRModule:
    """Return ``mod`` with calls of what ``instead`` says of a function's name and its operands.

    It returns another function and its operands, or None for calls that stay.
    """

    def rule(_rewriter: Rewriter, call: Any) -> Any | None:
        if op_name(call) not in _CALLS:
            return None
        found = instead(call.args[0].name_hint, call.args[1].fields)
        if found is None:
            return None
        name, operands = found
        args = [name, relax.Tuple(list(operands)), *call.args[2:]]
        return relax.Call(call.op, args, call.attrs, call.ty_args)

    return rewrite(mod, rule)
