"""Reductions of halves read halves: what widens them is part of the kernel that reduces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import HALVES
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite

REDUCTIONS = (
    *("mean", "sum", "max", "min", "prod", "variance", "argmax", "argmin"),
    *(f"nn.{kind}avg_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)),
)
"""Operators that are a function which reduces, and nothing else."""


def widened(rewriter: Rewriter, value: Any) -> Any | None:
    """Return the halves that ``value`` is in fp32, if that is what it is."""
    source = rewriter.resolve(value)
    if op_name(source) != "astype" or str(source.args[0].ty.dtype) not in HALVES:
        return None
    return source.args[0]


def _own(rewriter: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) not in REDUCTIONS:
        return None
    halves = widened(rewriter, call.args[0])
    if halves is None:
        return None
    own = rewriter.emit(relax.op.astype(halves, call.args[0].ty.dtype))
    return relax.Call(call.op, [own, *call.args[1:]], call.attrs, call.ty_args)


@tvm.transform.module_pass(opt_level=0, name="CopyWidening")
@dataclass(frozen=True)
class CopyWidening:
    """Give reductions of widened halves a conversion of their own, which their kernel can hold.

    before: ``y = astype(x); mean(y); multiply(y, z)``
    after:  ``y = astype(x); mean(astype(x)); multiply(y, z)``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with more conversions."""
        return rewrite(mod, _own)
