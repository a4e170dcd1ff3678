"""Numbers that follow from extents alone are written where they are read."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import MOST_REPEATED, map_functions, nodes
from tvm_sparse.schedules.variables import placed


@tvm.transform.module_pass(opt_level=0, name="KnownNumbers")
class KnownNumbers:
    """Write what follows from extents alone where it is read, without a variable.

    before: ``let v = float(n) * 0.5 in v <= 1 and 1 <= v``
    after:  ``float(n) * 0.5 <= 1 and 1 <= float(n) * 0.5``

    TVM's analysis binds a variable to what it finds out of its value, and fails where it finds out
    more at a second look: in the condition of a choice, say, if the value follows from an open
    extent. Such a value is a few instructions, and compilers compute it once. Choices that numbers
    decide, those of a quotient by its divisor, are made first.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without variables of numbers that follow from extents."""
        return map_functions(mod, _written_out)


def _written_out(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body, before = func.body, None
    while not body.same_as(before):  # one may follow from another one
        steps = (tirx.Let, _without_variable), (tirx.Select, _decided), (ir.Call, _decided)
        body, before = tvm_ffi.structural_map(body, steps), body
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _without_variable(let: tirx.Let) -> Any:
    found: list[Any] = []
    tvm_ffi.structural_walk(let.value, (ir.Expr, found.append))
    plain = len(found) <= MOST_REPEATED and all(map(_is_of_extents, found))
    return placed(let.body, {let.var: let.value}) if plain else let


def _decided(choice: Any) -> Any:
    """Return the side that a choice between whole numbers takes, if numbers alone decide it."""
    if isinstance(choice, ir.Call) and choice.op != _BRANCH:
        return choice
    select = isinstance(choice, tirx.Select)
    sides = (choice.condition, choice.true_value, choice.false_value) if select else choice.args
    if "int" not in str(choice.ty.dtype) or nodes(sides[0], tirx.Var) or nodes(sides[0], ir.Call):
        return choice
    found = Analyzer().simplify(sides[0])
    return choice if not isinstance(found, tirx.IntImm) else sides[1 if int(found) else 2]


def _is_of_extents(part: Any) -> bool:
    """Whether a part of an expression is a number, an extent or the arithmetic of such."""
    if isinstance(part, tirx.Var):
        return str(part.ty.dtype) in ("int32", "int64")
    return isinstance(part, _PARTS)


_BRANCH = ir.Op.get("prim.if_then_else")

_PARTS = (
    *(tirx.IntImm, tirx.FloatImm, tirx.Cast, tirx.Add, tirx.Sub, tirx.Mul, tirx.Div),
    *(tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min),
)
