"""Kernels that only reshape become views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_sparse.ops.marks import VIEW
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite

_STOCK = relax.transform.RewriteDataflowReshape()
_NOTHING = tirx.Evaluate(tirx.const(0, "int32"))


@tvm.transform.module_pass(opt_level=0, name="ViewReshapes")
@dataclass(frozen=True)
class ViewReshapes:
    """Replace calls of functions that move no element by ``relax.reshape``, which copies nothing.

    before: ``call_tir(reshape, x)`` --> after: ``relax.reshape(x, shape)``

    This is TVM's pass. Its analysis raises for some open extents, as ``t - 4``: functions that it
    cannot read stay what they are, but for those that are marked as views. Outputs are copies.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with views."""
        return _viewed(self._stock(mod))

    @staticmethod
    def _stock(mod: tvm.IRModule) -> tvm.IRModule:
        try:
            return _STOCK(mod)
        except tvm.error.InternalError:
            odd = {var: f for var, f in mod.functions_items() if _unreadable(f)}
            hidden = {var: func.with_body(_NOTHING) for var, func in odd.items()}
            changed = _STOCK(tvm.IRModule({**dict(mod.functions_items()), **hidden}, mod.attrs))
            kept = {var.name_hint: func for var, func in odd.items()}
            return tvm.IRModule(
                {var: kept.get(var.name_hint, f) for var, f in changed.functions_items()}, mod.attrs
            )


def _viewed(mod: tvm.IRModule) -> tvm.IRModule:
    """Return ``mod`` with views in the place of calls of functions that are marked so."""
    functions = (func for func in mod.functions.values() if isinstance(func, relax.Function))
    inner = {call for func in functions for call in _inner_calls(func)}

    def rule(rewriter: Rewriter, call: Any) -> Any | None:
        if rewriter.original not in inner or not _is_view(mod[call.args[0]]):
            return None
        x = call.args[1].fields[0]  # behind it stand extents that others are computed from
        return relax.op.reshape(x, call.ty_args[0].shape)

    return rewrite(mod, rule)


def _is_view(func: tvm.ir.BaseFunc) -> bool:
    return isinstance(func, tirx.PrimFunc) and VIEW in (func.attrs or {})


def _inner_calls(func: relax.Function) -> Iterator[Any]:
    """Yield the calls of functions whose results do not leave ``func``."""
    bindings = [b for block in func.body.blocks for b in block.bindings]
    outputs = [b.value for b in bindings if not isinstance(b.var, relax.DataflowVar)]
    left = {x for out in outputs if isinstance(out, relax.Tuple) for x in out.fields}
    for binding in bindings:
        is_inner = isinstance(binding.var, relax.DataflowVar) and binding.var not in left
        if is_inner and op_name(binding.value) == "call_tir":
            yield binding.value


def read_safely(step: Any) -> Any:
    """Return ``step``, or :class:`ViewReshapes` for TVM's own pass, which raises."""
    return ViewReshapes() if step.info.name == _STOCK.info.name else step


def _unreadable(func: tvm.ir.BaseFunc) -> bool:
    """Whether TVM's analysis of reshapes raises for ``func``."""
    if not isinstance(func, tirx.PrimFunc):
        return False
    try:
        relax.analysis.has_reshape_pattern(func)
    except tvm.error.InternalError:
        return True
    return False
