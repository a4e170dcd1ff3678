"""Attention of 16-bit values becomes one GPU kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax, s_tir

from tvm_sparse.base.numerics import Numerics
from tvm_sparse.machine.engine.registry import supported
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.cuda.attention import Attention, attention
from tvm_sparse.passes.canonical.left_products import MATRIX
from tvm_sparse.passes.graph.attention_chain import Chain, attention_chain
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    count_uses,
    op_name,
    rewrite,
    static_shape,
)
from tvm_sparse.passes.graph.views import seen
from tvm_sparse.selection.cuda.attention_choice import attention_warps


@tvm.transform.module_pass(opt_level=0, name="FuseAttention")
@dataclass(frozen=True)
class FuseAttention:
    """Compute attention without storing its scores, where GPUs have a kernel for its extents.

    before: ``astype(matmul(softmax(matmul(q, k) * scale + mask), v))``
    after:  ``call_tir(attention, (q, k, v, mask))``

    Transpositions and reshapes around it are read and written in place. Extents are static.
    """

    target: tvm.target.Target

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with fused attention."""
        return rewrite(mod, _Fuse(self.target, count_uses(mod["main"])))


@dataclass
class _Fuse:
    """The rule; remembers what it fused, since a transposition may follow."""

    target: tvm.target.Target
    uses: dict[Any, int]
    made: dict[Any, tuple[Attention, str]] = field(default_factory=dict)

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) == "permute_dims":
            return self._turned(rewriter, call)
        if op_name(call) not in ("astype", "matmul") or static_shape(call) is None:
            return None
        chain = attention_chain(rewriter, call)
        found = None if chain is None else _operands(rewriter, chain)
        if chain is None or found is None or not self._alone(chain):
            return None
        shape, dtype = static_shape(call) or (), str(call.ty.dtype)
        query, key, value = (view for view, _ in found)
        mask = static_shape(chain.mask) if chain.mask is not None else None
        a = Attention(
            query,
            key,
            value,
            lead=shape[:-2],
            order=tuple(range(len(shape))),
            mask=mask,
            scale=chain.scale,
            safe=chain.safe,
        )
        known = supported(Numerics.uniform(dtype), self.target)
        if not known or (mask is None) != (chain.mask is None) or not a.fits(dtype):
            return None
        own = [*(operand for _, operand in found), *([] if chain.mask is None else [chain.mask])]
        return self._emit(rewriter, a, dtype, own, call)

    def _alone(self, chain: Chain) -> bool:
        """Whether nothing else reads what would not be stored."""
        once = 2 if chain.safe else 1
        return all(self.uses.get(var, 1) <= once for var in chain.inner)

    def _turned(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        """Let attention write its result where ``call``, the only reader, puts it."""
        if self.uses.get(rewriter.original.args[0]) != 1 or call.attrs.axes is None:
            return None
        before = rewriter.resolve(call.args[0])
        made = self.made.get(before.args[0]) if op_name(before) == "call_tir" else None
        if made is None:
            return None
        a, dtype = made
        order = tuple(int(axis) % len(a.order) for axis in call.attrs.axes)
        turned = replace(a, order=order)
        if order[-1] != len(order) - 1 or a.order != tuple(sorted(a.order)):
            return None
        return self._emit(rewriter, turned, dtype, list(before.args[1].fields), call)

    def _emit(
        self, rewriter: Rewriter, a: Attention, dtype: str, operands: list[Any], call: relax.Call
    ) -> relax.Call:
        func = s_tir.renew_defs(attention(a, dtype, attention_warps(a, self.target)))
        emitted = call_function(rewriter, func, operands, call.ty, "attention")
        self.made[emitted.args[0]] = a, dtype
        return emitted


def _operands(rewriter: Rewriter, chain: Chain) -> list[tuple[View, Any]] | None:
    """Return query, key and value as views of ``(..., rows, width)``."""
    found = []
    for operand, turned in ((chain.query, False), (chain.key, True), (chain.value, False)):
        view = seen(rewriter, operand)
        if view is None or len(view[0].shapes[-1]) < MATRIX:
            return None
        *lead, row, column = range(len(view[0].shapes[-1]))
        last = (("permute_dims", (*lead, column, row)),) if turned else ()
        found.append((View(view[0].shape, (*view[0].steps, *last)), view[1]))
    return found
