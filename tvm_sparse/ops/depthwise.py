"""Depthwise convolution on NHWC activations, lanes along channels."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx
from tvm.target import Target

from tvm_sparse.engine.registry import engine_of
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.marks import OPERATOR, OUT_FUSABLE, ROWS, flat, int64, row_axis


def depthwise(contraction: Contraction, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, taps, Y)``: ``Y[b, y, x, c] = sum_t X[b, y*s+ty, x*s+tx, c] * W[t, c]``.

    ``taps`` is ``(kh * kw, channels)``, as ``DenseTapFormat.encode`` gives it.
    """
    c = contraction
    engine = engine_of(c.numerics, target)
    x = te.placeholder(int64(c.input_shape), c.dtype, "X")
    w = te.placeholder(int64((math.prod(c.taps), c.features)), engine.held, "V")
    taps = [te.reduce_axis((0, k), f"t{i}") for i, k in enumerate(c.taps)]

    def product(*index: Any) -> Any:
        *lead, channel = index
        offsets = [t.var for t in taps]
        row = c.input_index(list(lead), offsets)
        return te.sum(x[(*row, channel)] * w[flat(offsets, c.taps), channel], axis=taps)

    attrs = {OPERATOR: "depthwise", ROWS: row_axis(c.lead)}
    acc = te.compute(int64(c.output_shape), product, name="contract", attrs=attrs)
    y = te.compute(int64(c.output_shape), lambda *i: acc[i], name="store")
    func = te.create_prim_func([x, w, y]).with_attr("op_pattern", OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)
