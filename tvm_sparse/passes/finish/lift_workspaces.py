"""What a function of several kernels keeps between them becomes memory that is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, relax, s_tir, tirx

from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite


@tvm.transform.module_pass(opt_level=0, name="LiftWorkspaces")
@dataclass(frozen=True)
class LiftWorkspaces:
    """Give functions their intermediate arrays as further outputs, which nothing reads.

    before: ``call_tir(f, x)``, ``f`` has an array of its own --> after: ``call_tir(f, x)[0]``

    TVM takes such arrays from a pool at each call, and gives them back to the driver when a larger
    one is asked for. A CUDA graph would go on writing to where they were.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with all such arrays of static shape in the hands of Relax."""
        functions, lifted = dict(mod.functions_items()), dict[str, list[Any]]()
        for name, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and (found := workspaces(func)):
                lifted[name.name_hint] = found
                del functions[name]
                renewed, wider = ir.GlobalVar(name.name_hint), with_workspaces(func, found)
                relax.expr._update_type(renewed, wider.ty)
                functions[renewed] = wider
        return _calling(tvm.IRModule(functions, attrs=mod.attrs), lifted) if lifted else mod


def workspaces(func: tirx.PrimFunc) -> list[Any]:
    """Return the arrays in global memory, of static shape, that ``func`` has for itself."""
    body = func.body
    if not isinstance(body, s_tir.SBlockRealize):
        return []
    return [buffer for buffer in body.block.alloc_buffers if _is_workspace(buffer)]


def without_workspaces(func: tirx.PrimFunc) -> tuple[tirx.PrimFunc, list[tuple[list[int], str]]]:
    """Return ``func`` with its workspaces as last parameters, and their shapes and dtypes.

    Callers own them then. From TVM's pool they hold what an earlier call left there, and may be
    given away while a graph goes on writing to them.
    """
    found = workspaces(func)
    own = [([int(e) for e in one.ty.shape], str(one.ty.dtype)) for one in found]
    return (with_workspaces(func, found) if found else func), own


def with_workspaces(func: tirx.PrimFunc, found: list[Any]) -> tirx.PrimFunc:
    """Return ``func`` with the arrays ``found`` of :func:`workspaces` as its last parameters."""
    realize = func.body
    root = realize.block
    kept = [b for b in root.alloc_buffers if not any(b.same_as(one) for one in found)]
    fields = (root.iter_vars, root.reads, root.writes, root.name_hint, root.body, root.init)
    block = s_tir.SBlock(*fields, kept, root.match_buffers, root.annotations)
    body = s_tir.SBlockRealize(realize.iter_values, realize.predicate, block)
    return tirx.PrimFunc([*func.params, *found], body, func.ret_type, attrs=func.attrs)


def _is_workspace(buffer: Any) -> bool:
    static = all(isinstance(extent, tirx.IntImm) for extent in buffer.ty.shape)
    return static and buffer.ty.storage_scope in ("", "global")


def _calling(mod: tvm.IRModule, lifted: dict[str, list[Any]]) -> tvm.IRModule:
    """Return ``mod`` with calls that give functions their arrays, and take what they return."""

    def rule(rewriter: Rewriter, call: Any) -> Any | None:
        if op_name(call) != "call_tir" or call.args[0].name_hint not in lifted:
            return None
        arrays = [buffer.ty for buffer in lifted[call.args[0].name_hint]]
        added = [relax.TensorType([int(e) for e in ty.shape], str(ty.dtype)) for ty in arrays]
        single = not isinstance(call.ty, relax.TupleType)
        outputs = [call.ty] if single else list(call.ty.fields)
        args = [mod.get_global_var(call.args[0].name_hint), *call.args[1:]]
        types = [relax.TupleType([*outputs, *added])]
        whole = rewriter.builder_.emit(relax.Call(call.op, args, call.attrs, types))
        items = [relax.TupleGetItem(whole, i) for i in range(len(outputs))]
        return items[0] if single else relax.Tuple(items)

    return rewrite(mod, rule)
