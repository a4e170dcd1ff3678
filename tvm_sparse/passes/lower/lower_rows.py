"""Softmax, its logarithm and layer norm over the last axis become calls of our row operators."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS, HALVES
from tvm_sparse.ops.tensors.open_rows import open_softmax
from tvm_sparse.ops.tensors.rows import LANES, layer_norm, log_softmax, softmax
from tvm_sparse.passes.graph.computed_extents import in_own_symbols
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    constant,
    op_name,
    rewrite,
    shape_of,
)
from tvm_sparse.passes.lower.copy_widening import widened

_SOFTMAX = {"nn.softmax": softmax, "nn.log_softmax": log_softmax}


def _lower(rewriter: Rewriter, call: relax.Call, *, together: bool) -> Any | None:
    name = op_name(call)
    if name not in (*_SOFTMAX, "nn.layer_norm") or not _fits(call, name, together):
        return None
    shape = in_own_symbols(shape_of(call) or ())
    dtype = str(call.ty.dtype)
    if not isinstance(shape[-1], int) and not together:
        func = open_softmax(shape, dtype, logarithm=name == "nn.log_softmax")
        operands = list(call.args)
    elif name in _SOFTMAX:
        # Threads read halves as they are: what widens them would be a kernel of its own.
        halves = widened(rewriter, call.args[0]) if together else None
        x = call.args[0] if halves is None else halves
        func = _SOFTMAX[name](shape, str(x.ty.dtype), together=together, out_dtype=dtype)
        operands = [x]
    else:
        ones, zeros = (constant(fill(shape[-1], np.dtype(dtype))) for fill in (np.ones, np.zeros))
        x, gamma, beta = call.args
        gamma, beta = gamma if call.attrs.scale else ones, beta if call.attrs.center else zeros
        func = layer_norm(shape, dtype, float(call.attrs.epsilon), together=together)
        operands = [x, gamma, beta]
    hint = name.removeprefix("nn.")
    return call_function(rewriter, func, operands, call.ty, hint)


def _fits(call: relax.Call, name: str, together: bool) -> bool:
    """Whether the last axis is the one that is reduced: at least one vector long, or open.

    Halves are computed in fp32 by threads alone: no CPU's vectors were tried with them.
    """
    shape = shape_of(call) or [0]
    axes = [int(call.attrs.axis)] if name in _SOFTMAX else [int(a) for a in call.attrs.axes]
    last = axes in ([-1], [len(shape) - 1])
    is_open = not isinstance(shape[-1], int)
    long_enough = name in _SOFTMAX if is_open else shape[-1] >= LANES
    dtypes = {str(value.ty.dtype) for value in (*call.args, call)}
    known = len(dtypes) == 1 and dtypes <= {FLOAT_SUMS, *(HALVES if together else ())}
    return last and long_enough and len(shape) > 1 and known


@tvm.transform.module_pass(opt_level=0, name="LowerRows")
@dataclass(frozen=True)
class LowerRows:
    """Replace softmax, its logarithm and layer norm.

    Other axes and types, and short rows, keep TVM's definition. Threads reduce rows ``together``;
    a CPU has vectors, of rows of open length other ones.

    before: ``nn.softmax(x, axis=-1)`` --> after: ``call_tir(softmax, (x,))``
    """

    together: bool = False

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        rule = functools.partial(_lower, together=self.together)
        return rewrite(mod, rule)
