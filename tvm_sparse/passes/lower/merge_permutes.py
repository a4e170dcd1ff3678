"""Transpositions of transpositions, reshapes between them or not, become one, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.tensors.permute import Permutation
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, same_extent
from tvm_sparse.passes.graph.views import seen


def _rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) != "permute_dims":
        return None
    bound = rewriter.emit(call)
    found = seen(rewriter, bound, slices=False, symbols=True)
    if found is None or sum(step == "permute_dims" for step, _ in found[0].steps) < 2:
        return bound
    view, source = found
    batch, view = _sample_of(view)
    known = all(isinstance(extent, int) for shape in view.shapes for extent in shape)
    plain = Permutation.of_steps(view.shape, view.steps) if known else None
    if plain is None or not plain.is_fast():
        return bound
    if len(plain.shape) > 1:
        parted = rewriter.emit(relax.op.reshape(source, (*batch, *plain.shape)))
        axes = (*range(len(batch)), *(axis + len(batch) for axis in plain.axes))
        source = rewriter.emit(relax.op.permute_dims(parted, axes))
    return relax.op.reshape(source, call.ty.shape)


def _sample_of(view: View) -> tuple[tuple[Any, ...], View]:
    """Return the open batch that every step of ``view`` leaves in front, and the view behind it.

    Without such a batch, it is ``view`` itself.
    """
    batch = view.shape[0] if view.shape else 1
    if isinstance(batch, int) or not all(
        shape and same_extent(shape[0], batch) for shape in view.shapes
    ):
        return (), view
    if any(step == "permute_dims" and axes[0] != 0 for step, axes in view.steps):
        return (), view
    steps = (
        (step, tuple(axis - 1 for axis in given[1:]) if step == "permute_dims" else given[1:])
        for step, given in view.steps
    )
    return (batch,), View(view.shape[1:], tuple(steps))


@tvm.transform.module_pass(opt_level=0, name="MergePermutes")
@dataclass(frozen=True)
class MergePermutes:
    """Write several transpositions of a tensor as one of as few axes as possible.

    before: ``permute_dims(reshape(permute_dims(x: (2, 3, 4)), (4, 6)))``
    after:  ``reshape(x, (6, 4))``

    Those that are fast stay where one would not be. Of open extents, only a batch may be one that
    stays in front.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer transpositions."""
        return rewrite(mod, _rule)
