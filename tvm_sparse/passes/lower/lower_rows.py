"""Softmax, its logarithm and layer norm over the last axis become calls of our row operators."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.tensors.open_rows import open_softmax
from tvm_sparse.ops.tensors.rows import LANES, layer_norm, log_softmax, softmax
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    call_function,
    constant,
    op_name,
    rewrite,
    shape_of,
)

_SOFTMAX = {"nn.softmax": softmax, "nn.log_softmax": log_softmax}


def _lower(sweep: Rewriter, call: relax.Call, *, open_rows: bool) -> Any | None:
    name = op_name(call)
    if name not in (*_SOFTMAX, "nn.layer_norm") or not _fits(call, name):
        return None
    shape = tuple(e if isinstance(e, int) else tirx.Var("n", "int64") for e in shape_of(call) or ())
    if not isinstance(shape[-1], int):
        if not open_rows:
            return None
        func = open_softmax(shape, FLOAT_SUMS, logarithm=name == "nn.log_softmax")
        operands = list(call.args)
    elif name in _SOFTMAX:
        func, operands = _SOFTMAX[name](shape, FLOAT_SUMS), list(call.args)
    else:
        ones = constant(np.ones(shape[-1], FLOAT_SUMS))
        zeros = constant(np.zeros(shape[-1], FLOAT_SUMS))
        x, gamma, beta = call.args
        gamma, beta = gamma if call.attrs.scale else ones, beta if call.attrs.center else zeros
        func, operands = layer_norm(shape, FLOAT_SUMS, float(call.attrs.epsilon)), [x, gamma, beta]
    hint = name.removeprefix("nn.")
    return call_function(sweep, func, operands, call.ty, hint)


def _fits(call: relax.Call, name: str) -> bool:
    """Whether the last axis is the one that is reduced: at least one vector long, or open."""
    shape = shape_of(call) or [0]
    axes = [int(call.attrs.axis)] if name in _SOFTMAX else [int(a) for a in call.attrs.axes]
    last = axes in ([-1], [len(shape) - 1])
    is_open = not isinstance(shape[-1], int)
    long_enough = name in _SOFTMAX if is_open else shape[-1] >= LANES
    return last and long_enough and len(shape) > 1 and str(call.ty.dtype) == FLOAT_SUMS


@tvm.transform.module_pass(opt_level=0, name="LowerRows")
@dataclass(frozen=True)
class LowerRows:
    """Replace softmax, its logarithm and layer norm.

    Other axes and types, and short rows, keep TVM's definition; so do rows of open length unless
    ``open_rows``, whose function is made of a CPU's vectors.

    before: ``nn.softmax(x, axis=-1)`` --> after: ``call_tir(softmax, (x,))``
    """

    open_rows: bool = True

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, functools.partial(_lower, open_rows=self.open_rows))
