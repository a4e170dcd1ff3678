"""Depthwise convolution on NHWC activations, lanes along channels."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx
from tvm.target import Target

from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, ROWS, flat, int64, row_axis


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
        pixel, weight = x(*row, channel), w(flat(offsets, c.taps), channel)
        return te.sum(engine.wide(pixel, engine.shift) * engine.wide(weight), axis=taps)

    attrs = {OPERATOR: "depthwise", ROWS: row_axis(c.lead)}
    acc = te.compute(int64(c.output_shape), product, name="contract", attrs=attrs)
    own = int64((c.features,)), c.numerics.accumulate
    z = [te.placeholder(*own, "Z")] if engine.corrects(c.zero_point) else []
    y = te.compute(
        int64(c.output_shape), lambda *i: sum((o(i[-1]) for o in z), acc(*i)), name="store"
    )
    func = te.create_prim_func([x, w, *z, y]).with_attr(FUSION, OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)
