"""Transpositions that take others back, reshapes between them or not, go away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.passes.rewrite import Rewriter, op_name, rewrite, static_shape
from tvm_sparse.passes.views import seen

MOST_ELEMENTS = 1 << 24
"""Largest tensor whose elements are followed, each by its place."""


def _rule(sweep: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) != "permute_dims" or static_shape(call) is None:
        return None
    bound = sweep.emit(call)
    found = seen(sweep, bound)
    if found is None:
        return None
    view, source = found
    permutes = sum(step == "permute_dims" for step, _ in view.steps)
    if permutes < 2 or math.prod(view.shape) > MOST_ELEMENTS:
        return bound
    places = view.places()
    whole = places.size == math.prod(view.shape)
    as_before = whole and bool((np.diff(places.reshape(-1)) == 1).all())
    return relax.op.reshape(source, call.ty.shape) if as_before else bound


@tvm.transform.module_pass(opt_level=0, name="DropPermutes")
@dataclass(frozen=True)
class DropPermutes:
    """Replace transpositions after which all elements lie as they did before some others.

    before: ``permute_dims(reshape(permute_dims(x: (2, 3, 4)), (4, 6)))``
    after:  ``reshape(x, (6, 4))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer transpositions."""
        return rewrite(mod, _rule)
