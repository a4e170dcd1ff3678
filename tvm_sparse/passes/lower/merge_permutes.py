"""Transpositions of transpositions, reshapes between them or not, become one, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.ops.tensors.permute import Permutation
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, static_shape
from tvm_sparse.passes.graph.views import seen


def _rule(rewriter: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) != "permute_dims" or static_shape(call) is None:
        return None
    bound = rewriter.emit(call)
    found = seen(rewriter, bound, slices=False)
    if found is None or sum(step == "permute_dims" for step, _ in found[0].steps) < 2:
        return bound
    view, source = found
    plain = Permutation.of_steps(view.shape, view.steps)
    if plain is None or not plain.is_fast():
        return bound
    if len(plain.shape) > 1:
        parted = rewriter.emit(relax.op.reshape(source, plain.shape))
        source = rewriter.emit(relax.op.permute_dims(parted, plain.axes))
    return relax.op.reshape(source, call.ty.shape)


@tvm.transform.module_pass(opt_level=0, name="MergePermutes")
@dataclass(frozen=True)
class MergePermutes:
    """Write several transpositions of a tensor as one of as few axes as possible.

    before: ``permute_dims(reshape(permute_dims(x: (2, 3, 4)), (4, 6)))``
    after:  ``reshape(x, (6, 4))``

    Those that are fast stay where one would not be.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer transpositions."""
        return rewrite(mod, _rule)
