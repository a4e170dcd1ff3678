"""Dense linear layer and convolution on lane-packed weights."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.target import Target

from tvm_sparse.engine.registry import engine_of
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.marks import OPERATOR, OUT_FUSABLE, ROWS, flat, int64, row_axis


def dense(contraction: Contraction, storage: DenseFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)``: ``Y[..., o] = sum_tc X[..., t, c] * W[o, t, c]``.

    Shapes: ``X`` and ``Y`` as the contraction says, ``values`` as ``DenseFormat.encode`` gives.
    """
    c, lanes = contraction, storage.lanes
    engine = engine_of(c.numerics, target)
    x = te.placeholder(int64(c.input_shape), c.dtype, "X")
    w = te.placeholder(int64((storage.row_blocks, storage.cols, lanes)), engine.held, "V")
    taps = [te.reduce_axis((0, k), f"t{i}") for i, k in enumerate(c.taps)]
    column = te.reduce_axis((0, c.columns), "c")

    def product(*index: Any) -> Any:
        *lead, block, lane = index
        position = flat([t.var for t in taps], c.taps) * c.columns + column.var
        row = c.input_index(list(lead), [t.var for t in taps])
        return te.sum(x[(*row, column.var)] * w[block, position, lane], axis=[*taps, column])

    attrs = {OPERATOR: "dense", ROWS: row_axis(c.lead)}
    shape = int64((*c.lead, storage.row_blocks, lanes))
    acc = te.compute(shape, product, name="contract", attrs=attrs)
    y = te.compute(
        int64(c.output_shape), lambda *i: acc[(*i[:-1], i[-1] // lanes, i[-1] % lanes)], "store"
    )
    func = te.create_prim_func([x, w, y]).with_attr("op_pattern", OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)
