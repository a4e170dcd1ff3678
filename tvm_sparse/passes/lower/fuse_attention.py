"""Attention of 16-bit values becomes one GPU kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax, s_tir

from tvm_sparse.base.numerics import Numerics
from tvm_sparse.machine.engine.registry import supported
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.cuda.attention import Attention, ScoreMask, attention
from tvm_sparse.passes.bytes.fuse_quantization import meant_by
from tvm_sparse.passes.bytes.quantization import behind_casts
from tvm_sparse.passes.canonical.left_products import MATRIX
from tvm_sparse.passes.graph.attention_chain import Chain, attention_chain, scaled
from tvm_sparse.passes.graph.computed_extents import with_extents
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    count_uses,
    op_name,
    rewrite,
    shape_of,
)
from tvm_sparse.passes.graph.views import Names, Seen, Shape, named, seen, whole
from tvm_sparse.selection.cuda.attention_choice import attention_warps
from tvm_sparse.selection.in_floats import Kind

QUERY, KEY = 0, 1
"""Places among the operands."""


@tvm.transform.module_pass(opt_level=0, name="FuseAttention")
@dataclass(frozen=True)
class FuseAttention:
    """Compute attention without storing its scores, where GPUs have a kernel for its extents.

    before: ``astype(matmul(softmax(matmul(q, k) * scale + mask), v))``
    after:  ``call_tir(attention, (q, k, v, mask))``

    So is ``softmax(where(condition, q * k, number))``, with ``where(condition, 0, number)`` as the
    mask: what is not zero stands in the place of a score.
    Transpositions, reshapes and slices around it are read and written in place, and so are keys and
    values that several heads share, where a broadcast repeats them. A number that
    queries or keys are multiplied with is part of the scale. ``note`` is told of products of what
    bytes mean.
    """

    target: tvm.target.Target
    note: Callable[[Kind, Sequence[Sequence[Any]]], None] = lambda kind, operands: None

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the module with fused attention."""
        return rewrite(mod, _Fuse(self.target, self.note, count_uses(mod["main"])))


@dataclass
class _Fuse:
    """The rule; remembers what it fused, since a transposition may follow."""

    target: tvm.target.Target
    note: Callable[[Kind, Sequence[Sequence[Any]]], None]
    uses: dict[Any, int]
    made: dict[Any, tuple[Attention, str, Names]] = field(default_factory=dict)

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) == "permute_dims":
            return self._turned(rewriter, call)
        shape = tuple(shape_of(call) or ())
        if op_name(call) not in ("astype", "matmul") or not shape:
            return None
        chain = attention_chain(rewriter, call)
        found = None if chain is None else _operands(rewriter, chain, shape)
        if chain is None or found is None or not self._alone(chain):
            return None
        shape, (query, key, value, *masks), names, scale = found
        dtype = str(call.ty.dtype)
        a = Attention(
            query[0],
            key[0],
            value[0],
            lead=shape[:-2],
            order=tuple(range(len(shape))),
            masks=tuple(
                ScoreMask(view.shape, bool(mask.number))
                for (view, _), mask in zip(masks, chain.masks, strict=True)
            ),
            scale=scale,
            safe=chain.safe,
        )
        if not supported(Numerics.uniform(dtype), self.target) or not a.fits(dtype):
            return None
        operands = [operand for _, operand in (query, key, value)]
        if all(_of_bytes(rewriter, operand) for operand in operands[: KEY + 1]):
            self.note(Kind.ATTENTION, [shape_of(chain.query) or (), shape_of(chain.key) or ()])
        operands += [mask.operand(rewriter, dtype) for mask in chain.masks]
        return self._emit(rewriter, (a, dtype, names), operands, call)

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
        a, dtype, names = made
        order = tuple(int(axis) % len(a.order) for axis in call.attrs.axes)
        turned = replace(a, order=order)
        if order[-1] != len(order) - 1 or a.order != tuple(sorted(a.order)):
            return None
        operands = list(before.args[1].fields)
        return self._emit(rewriter, (turned, dtype, names), operands, call)

    def _emit(
        self,
        rewriter: Rewriter,
        made: tuple[Attention, str, Names],
        operands: list[Any],
        call: relax.Call,
    ) -> relax.Call:
        a, dtype, names = made
        func = s_tir.renew_defs(attention(a, dtype, attention_warps(a, self.target)))
        func = with_extents(func, names)
        emitted = call_function(rewriter, func, operands, call.ty, "attention")
        self.made[emitted.args[0]] = made
        return emitted


def _of_bytes(rewriter: Rewriter, operand: Any) -> bool:
    """Whether ``operand`` is what bytes mean, cast to halves."""
    call = rewriter.resolve(behind_casts(rewriter, operand)[0])
    return op_name(call) == "multiply" and meant_by(rewriter, call) is not None


def _operands(
    rewriter: Rewriter, chain: Chain, output: Shape
) -> tuple[Shape, list[Seen], Names, float] | None:
    """Return query, key and value as views of ``(..., rows, width)``, and masks, as named.

    The number last is what scores of these are multiplied with.
    """
    found, scale = [], chain.scale
    for place, operand in enumerate((chain.query, chain.key, chain.value)):
        view = seen(rewriter, operand, symbols=True, repeats=True)
        if view is not None and place in (QUERY, KEY):
            view, factor = _unscaled(rewriter, view)
            scale *= factor
        if view is None or len(view[0].shapes[-1]) < MATRIX:
            return None
        *lead, row, column = range(len(view[0].shapes[-1]))
        last = (("permute_dims", (*lead, column, row)),) if place == KEY else ()
        found.append((View(view[0].shape, (*view[0].steps, *last)), view[1]))
    for mask in chain.masks:
        if shape_of(mask.tensor) is None:
            return None
        found.append(whole(mask.tensor))
    known = named(output, *found)
    return None if known is None else (*known, scale)


def _unscaled(rewriter: Rewriter, operand: Seen) -> tuple[Seen, float]:
    """Return an operand before it was multiplied with a number, and that."""
    view, tensor = operand
    inner, factor = scaled(rewriter, tensor, [])
    if inner.same_as(tensor):
        return operand, 1.0
    before = seen(rewriter, inner, symbols=True, repeats=True)
    if before is None:
        return operand, 1.0
    return (View(before[0].shape, (*before[0].steps, *view.steps)), before[1]), factor
