"""Vectors that CUDA has no type for become loops over their lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_sparse.schedules.blocks import SERIAL, UNROLLED, VECTORIZED, map_functions, nodes

BYTES = ("int8", "uint8")
_LANE = "int32"
_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def scalar_lanes(body: Any) -> Any:
    """Return ``body`` with a loop over lanes instead of each store of a vector.

    before: ``y[i : i + 64] = x[j : j + 64] * 2`` --> after: ``for k in range(64): y[i + k] = …``

    Definitions that are written for the vectors of CPUs run on threads of GPUs in this way.
    """
    rules = ((tirx.For, _in_order), (tirx.BufferStore, _stored))
    return tvm_ffi.structural_map(body, rules)


@tvm.transform.module_pass(opt_level=0, name="SerialConditions")
class SerialConditions:
    """Make loops over lanes that TVM has no CUDA for plain ones: of booleans, and two more.

    before: ``for k in T.vectorized(4): y[k] = x[k] > 0`` --> after: ``for k in T.unroll(4): …``

    A vector of booleans is one of 16 bits each in TVM's CUDA, two bytes of memory instead of one.
    What compares vectors of 64-bit elements does not compile, nor one byte that all lanes read.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` without vectors of booleans in memory."""
        return map_functions(mod, _without_vectors)


def _without_vectors(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(func.body, (tirx.For, _conditions_in_order))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _conditions_in_order(loop: tirx.For) -> Any:
    if int(loop.kind) != VECTORIZED:
        return loop
    tensors = [load.source for load in nodes(loop.body, ir.TensorLoad)]
    tensors += [store.buffer for store in nodes(loop.body, tirx.BufferStore)]
    booleans = any(str(t.dtype) == "bool" for t in tensors)
    compared = (node for kind in _COMPARISONS for node in nodes(loop.body, kind))
    plain = booleans or any(map(_is_long, compared)) or _repeats_bytes(loop)
    return _of_kind(loop, UNROLLED) if plain else loop


def _repeats_bytes(loop: tirx.For) -> bool:
    """Whether a byte that is the same for all lanes is read or computed."""
    varying = [loop.loop_var]
    for block in nodes(loop.body, s_tir.SBlockRealize):
        pairs = zip(block.block.iter_vars, block.iter_values, strict=True)
        varying += [axis.var for axis, value in pairs if _uses(value, [loop.loop_var])]
    found = (node for kind in (ir.TensorLoad, tirx.Cast) for node in nodes(loop.body, kind))
    return any(str(node.ty.dtype) in BYTES and not _uses(node, varying) for node in found)


def _uses(expr: Any, variables: list[Any]) -> bool:
    used = tirx.analysis.undefined_vars(expr)
    return any(v.same_as(variable) for v in used for variable in variables)


def _is_long(comparison: Any) -> bool:
    """Whether 64-bit elements are compared; indices that tables of 32 bits give are none."""
    read = (load.source.dtype for load in nodes(comparison, ir.TensorLoad))
    return str(comparison.a.ty.dtype) == "int64" and "int64" in map(str, read)


def _in_order(loop: tirx.For) -> Any:
    return _of_kind(loop, SERIAL) if int(loop.kind) == VECTORIZED else loop


def _of_kind(loop: tirx.For, kind: int) -> tirx.For:
    var, marks = loop.loop_var, loop.annotations
    return tirx.For(var, loop.min, loop.extent, kind, loop.body, annotations=marks, step=loop.step)


def _stored(store: tirx.BufferStore) -> Any:
    """Return the loop that ``store`` is; where a lane reads what another writes, in two steps."""
    lanes = int(store.value.ty.dtype.lanes)
    if lanes == 1:
        return store
    here = store.indices[-1]
    own = [read for read in nodes(store.value, ir.TensorLoad) if read.source.same_as(store.buffer)]
    if all(tvm_ffi.structural_equal(read.indices[-1], here) for read in own):
        return _each(lanes, store.buffer, store.indices, store.value)
    held = tirx.decl_buffer([lanes], store.buffer.dtype, "held", scope="local")
    whole = tirx.Ramp(0, 1, lanes)
    steps = [
        tirx.AllocBuffer(held),
        _each(lanes, held, [whole], store.value),
        _each(lanes, store.buffer, store.indices, held[whole]),
    ]
    return tirx.SeqStmt(steps)


def _each(lanes: int, buffer: Any, indices: Any, value: Any) -> tirx.For:
    k = tirx.Var("k", _LANE)
    scalar = tirx.BufferStore(buffer, _lane(value, k), [_lane(index, k) for index in indices])
    return tirx.For(k, tirx.const(0, _LANE), tirx.const(lanes, _LANE), SERIAL, scalar)


def _lane(x: Any, k: Any) -> Any:
    """Return lane ``k`` of an expression."""
    if int(x.ty.dtype.lanes) == 1:
        return x
    return _LANES.get(type(x), _lane_of_pair)(x, k)


def _lane_of_ramp(x: tirx.Ramp, k: Any) -> Any:
    return x.base + tirx.Cast(str(x.base.ty.dtype), k) * x.stride


def _lane_of_load(x: ir.TensorLoad, k: Any) -> Any:
    return x.source[tuple(_lane(index, k) for index in x.indices)]


def _lane_of_choice(x: tirx.Select, k: Any) -> Any:
    return tirx.Select(*(_lane(part, k) for part in (x.condition, x.true_value, x.false_value)))


def _lane_of_call(x: ir.Call, k: Any) -> Any:
    return ir.Call(x.op, [_lane(arg, k) for arg in x.args], ret_ty=_scalar(x))


def _lane_of_pair(x: Any, k: Any) -> Any:
    return type(x)(_lane(x.a, k), _lane(x.b, k))


def _lane_of_bound(let: tirx.Let, k: Any) -> Any:
    if int(let.var.ty.dtype.lanes) == 1:
        return tirx.Let(let.var, let.value, _lane(let.body, k))
    inlined = (tirx.Var, lambda var: let.value if var.same_as(let.var) else var)
    return _lane(tvm_ffi.structural_map(let.body, inlined), k)


def _scalar(x: Any) -> str:
    return str(x.ty.dtype).partition("x")[0]


_LANES: dict[type, Callable[[Any, Any], Any]] = {
    tirx.Ramp: _lane_of_ramp,
    tirx.Broadcast: lambda x, k: x.value,
    tirx.Cast: lambda x, k: tirx.Cast(_scalar(x), _lane(x.value, k)),
    tirx.Not: lambda x, k: tirx.Not(_lane(x.a, k)),
    tirx.Select: _lane_of_choice,
    tirx.Let: _lane_of_bound,
    ir.TensorLoad: _lane_of_load,
    ir.Call: _lane_of_call,
}
"""How a lane is taken of a type of expression; others are of two operands."""
