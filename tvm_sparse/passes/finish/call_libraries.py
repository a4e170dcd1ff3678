"""A function that a library may compute asks it first, and runs our own kernels if it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_sparse.ops.marks import LIBRARY, int64

WORKSPACE = 32 << 20
"""Bytes that a library may use: what NVIDIA recommends for Hopper (``cublasSetWorkspace``). They
are planned with all other memory: calls of a program share them, programs do not."""

BIAS, RESIDUAL, RELU = 1, 2, 4
"""What is behind the product, as the runtime numbers it (``python/native/src/libraries.h``)."""


@tvm.transform.module_pass(opt_level=0, name="CallLibraries")
@dataclass(frozen=True)
class CallLibraries:
    """Put the library's call before our kernels, for functions that ``PlanLibraryCalls`` marked.

    before: ``f(x, w, y): <kernels>`` --> after: ``f(x, w, y): if library(x, w, y) == 0: <what is
    behind the call> else: <kernels>``

    Where rows are open, it is asked if there are as many as the plan says. It is the host that
    asks, at each call: a CUDA graph holds the branch that was taken.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions, without those that are behind calls."""
        plans = {
            name: func.attrs[LIBRARY]
            for name, func in mod.functions_items()
            if isinstance(func, tirx.PrimFunc) and LIBRARY in (func.attrs or {})
        }
        result = tvm.IRModule(mod.functions, attrs=mod.attrs)
        for name, plan in plans.items():
            behind = mod[plan["behind"]] if "behind" in plan else None
            result[name] = _branching(mod[name].without_attr(LIBRARY), plan, behind)
        for plan in plans.values():
            if "behind" in plan:
                del result[plan["behind"]]
        return result


def _branching(func: tirx.PrimFunc, plan: Any, behind: tirx.PrimFunc | None) -> tirx.PrimFunc:
    """Return ``func`` with the call and ``behind``, or its own kernels."""
    root, own = func.body.block, list[Any]()
    workspace = tirx.decl_buffer([WORKSPACE], "uint8", "library_workspace")
    out, rest = func.params[int(plan["places"][4])], tirx.Evaluate(0)
    if behind is not None:
        out, rest, own = _renamed(behind, [func.params[int(place)] for place in plan["read"]])
    left = tirx.Var("left", "int32")
    own_kernels, behind_call = _if(left, root.body), _if(1 - left, rest)
    asked = tirx.Bind(left, _call(func, plan, out, workspace))
    body = tirx.SeqStmt([asked, own_kernels, behind_call])
    arrays = [*root.alloc_buffers, *own, workspace]
    block = s_tir.SBlock([], [], [], root.name_hint, body, root.init, arrays)
    realize = s_tir.SBlockRealize([], True, block)
    return tirx.PrimFunc(func.params, realize, func.ret_type, attrs=func.attrs)


def _if(times: Any, kernels: Any) -> tirx.For:
    """Return ``kernels`` once or not at all: TVM allows no barriers under a condition."""
    return tirx.For(tirx.Var("once", "int32"), 0, times, tirx.ForKind.SERIAL, kernels)


def _renamed(behind: tirx.PrimFunc, params: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Return what ``behind`` reads first, its kernels on ``params``, and its arrays."""
    renamed = dict(zip(behind.params[1:], params, strict=True))
    root, first = behind.body.block, behind.params[0]
    body = tvm_ffi.structural_map(root.body, (tvm.ir.Var, lambda var: renamed.get(var, var)))
    return first, body, [*root.alloc_buffers, first]


def _call(func: tirx.PrimFunc, plan: Any, out: Any, workspace: Any) -> Any:
    """Return the call, which is 0 if the library did it; 1 where rows are too few to ask."""
    x, w, bias, residual = (int(place) for place in list(plan["places"])[:4])
    absent = func.params[x].data
    bias_data, residual_data = (
        absent if place < 0 else func.params[place].data for place in (bias, residual)
    )
    epilogue = BIAS * (bias >= 0) + RESIDUAL * (residual >= 0) + RELU * int(plan["relu"])
    numbers = [tirx.const(int(n), "int64") for n in plan["numbers"]]
    rows = math.prod(int64(tuple(func.params[x].shape)[: -1 - int(plan["planes"])]))
    data = [func.params[x].data, func.params[w].data, bias_data, residual_data, out.data]
    dtypes = [str(func.params[x].dtype), str(plan["dtype"])]
    room = [workspace.data, tirx.const(WORKSPACE, "int64")]
    call = tirx.call_packed(str(plan["function"]), *data, *room, rows, *numbers, *dtypes, epilogue)
    if not (least := int(plan["least"])):
        return call
    return tirx.if_then_else(rows >= least, call, tirx.const(1, "int32"))
