"""Arithmetic on bfloat16 as arithmetic in single precision, rounded once an operator."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.bytes.halves import HALF, chosen_half, half_of, single_of
from tvm_sparse.schedules.blocks import map_functions

_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.Max, tirx.Min)
_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_REINTERPRET, _CHOICE = map(ir.Op.get, ("tirx.reinterpret", "prim.if_then_else"))


@tvm.transform.module_pass(opt_level=0, name="LowerHalves")
class LowerHalves:
    """Compute in single precision where operands are bfloat16, and round each result.

    before: ``a + b`` --> after: ``half_of(single_of(a) + single_of(b))``

    TVM's own pass passes over what is bound to a variable, which then computes with bits as if
    they were numbers. It rounds what is stored only, with the operand written twice, and makes
    infinities of some NaN. After this pass it finds nothing to do.

    Tensors of bfloat16 inside of a function are an exception: TVM makes them single precision.
    Such a function is TVM's, with variables replaced by what is bound to them.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without arithmetic on bfloat16."""
        return map_functions(mod, _in_single)


def _in_single(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(func.body, _INLINED if _has_inner(func) else _RULES)
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _has_inner(func: tirx.PrimFunc) -> bool:
    """Whether a tensor of bfloat16 that ``func`` reads or writes is none of its parameters."""
    read: list[Any] = []
    tvm_ffi.structural_walk(func.body, (ir.TensorLoad, lambda node: read.append(node.source)))
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda node: read.append(node.buffer)))
    halves = [tensor for tensor in read if str(tensor.dtype) == HALF]
    return any(not any(p.same_as(tensor) for p in func.params) for tensor in halves)


def _inline(node: tirx.Let) -> Any:
    return tvm_ffi.structural_map(
        node.body, (tirx.Var, lambda var: node.value if var.same_as(node.var) else var)
    )


def _arithmetic(node: Any) -> Any:
    if not _is_half(node):
        return node
    return half_of(type(node)(single_of(node.a), single_of(node.b)))


def _comparison(node: Any) -> Any:
    return type(node)(single_of(node.a), single_of(node.b)) if _is_half(node.a) else node


def _choice(node: tirx.Select) -> Any:
    if not _is_half(node):
        return node
    return chosen_half(tirx.Select, node.condition, node.true_value, node.false_value)


def _cast(node: tirx.Cast) -> Any:
    to, source = str(node.ty.dtype), str(node.value.ty.dtype)
    if HALF not in (to, source) or to == source:
        return node
    value = single_of(node.value) if source == HALF else node.value
    return half_of(_as(FLOAT_SUMS, value)) if to == HALF else _as(to, value)


def _as(dtype: str, value: Any) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


def _call(node: ir.Call) -> Any:
    if node.op.same_as(_REINTERPRET) or not (_is_half(node) or _is_condition(node)):
        return node
    if node.op.same_as(_CHOICE):
        return chosen_half(tirx.if_then_else, *node.args)
    args = [single_of(a) if _is_half(a) else a for a in node.args]
    if not _is_half(node):
        return ir.Call(node.op, args, ret_ty=node.ty)
    return half_of(ir.Call(node.op, args, ret_ty=FLOAT_SUMS))


def _is_condition(call: ir.Call) -> bool:
    """Whether ``call`` asks something about numbers of bfloat16."""
    return str(getattr(call.ty, "dtype", "")) == "bool" and any(map(_is_half, call.args))


def _is_half(x: Any) -> bool:
    return isinstance(x, ir.Expr) and str(getattr(x.ty, "dtype", "")) == HALF


def _loop(node: tirx.For) -> Any:
    """Leave a loop that fills bfloat16 with a constant to LLVM: TVM mistypes vectors of one."""
    if node.kind != tirx.ForKind.VECTORIZED:
        return node
    stores: list[Any] = []
    tvm_ffi.structural_walk(node.body, (tirx.BufferStore, stores.append))
    if not any(str(s.buffer.dtype) == HALF and _is_constant(s.value) for s in stores):
        return node
    serial, marks = tirx.ForKind.SERIAL, node.annotations
    return tirx.For(node.loop_var, node.min, node.extent, serial, node.body, annotations=marks)


def _is_constant(value: Any) -> bool:
    """Whether ``value`` reads no tensor, and no variable that it does not bind itself."""
    loads: list[Any] = []
    used: list[Any] = []
    bound: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, loads.append))
    tvm_ffi.structural_walk(value, (tirx.Var, used.append))
    tvm_ffi.structural_walk(value, (tirx.Let, lambda let: bound.append(let.var)))
    return not loads and all(any(var.same_as(b) for b in bound) for var in used)


_RULES = (
    (_ARITHMETIC, _arithmetic),
    (_COMPARISONS, _comparison),
    (tirx.Select, _choice),
    (tirx.Cast, _cast),
    (ir.Call, _call),
    (tirx.For, _loop),
)
_INLINED = ((tirx.Let, _inline), (tirx.For, _loop))
