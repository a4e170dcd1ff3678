"""Dense linear layer and convolution on lane-packed weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.emit import first_column, whole
from tvm_sparse.ops.marks import (
    FUSION,
    OPERATOR,
    OUT_FUSABLE,
    ROWS,
    flat,
    group_mark,
    int64,
    row_axis,
)


def dense(contraction: Contraction, format: DenseFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)``: ``Y[..., o] = sum_tc X[..., t, c] * W[o, t, c]``.

    Where lanes multiply several columns at once, or widen weights, it is a loop nest of whole
    vectors. Shapes: ``X`` and ``Y`` as the contraction says, ``values`` as the format gives.
    """
    c, lanes = contraction, format.lanes
    engine = engine_of(c.numerics, target)
    if engine.depth > 1 or c.numerics.widens:
        return loop_nest(c, DenseWeights(c, format), target, numbered=True)
    x = te.placeholder(int64(c.input_shape), c.dtype, "X")
    w = te.placeholder(int64((format.row_blocks, format.cols, lanes)), engine.held, "V")
    taps = [te.reduce_axis((0, k), f"t{i}") for i, k in enumerate(c.taps)]
    column = te.reduce_axis((0, c.columns), "c")

    def product(*index: Any) -> Any:
        *lead, block, lane = index
        position = flat([t.var for t in taps], c.taps) * c.columns + column.var
        row = c.input_index(list(lead), [t.var for t in taps])
        channel = c.group_start(block * lanes) + column.var
        value, weight = x[(*row, channel)], w[block, position, lane]
        if c.guarded:
            nothing = tirx.const(0, engine.held)
            value = tirx.Select(weight != nothing, value, tirx.const(0, c.dtype))
        return te.sum(value * weight, axis=[*taps, column])

    marks = {OPERATOR: "dense", ROWS: row_axis(c.lead)}
    attrs = marks | group_mark(c.features, c.groups, lanes)
    shape = int64((*c.lead, format.row_blocks, lanes))
    acc = te.compute(shape, product, name="contract", attrs=attrs)
    y = te.compute(
        int64(c.output_shape), lambda *i: acc[(*i[:-1], i[-1] // lanes, i[-1] % lanes)], "store"
    )
    func = te.create_prim_func([x, w, y]).with_attr(FUSION, OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)


def dense_format(contraction: Contraction, target: Target) -> DenseFormat:
    """Return the format that :func:`dense` reads on ``target``."""
    c, depth = contraction, engine_of(contraction.numerics, target).depth
    return DenseFormat(*c.matrix_shape, segments=math.prod(_walked(c, depth)), depth=depth)


def _walked(c: Contraction, depth: int) -> tuple[int, ...]:
    """Return the taps that are walked one by one.

    Pixels side by side are one run of columns where that fills more groups of ``depth``: 7 of 3
    channels are 21 columns in 6 groups of 4.
    """
    joined = c.taps and c.columns % depth and c.dilation[-1] == c.groups == 1
    return c.taps[:-1] if joined else c.taps


@dataclass
class DenseWeights:
    """Group after group of neighbouring columns, each met by its activations in every lane.

    Weights have ``batch`` as leading axes where the first axes of the output have own ones.
    """

    contraction: Contraction
    format: DenseFormat
    operator: str = "dense"
    batch: tuple[int, ...] = ()
    _values: Any = field(init=False, default=None)

    @property
    def lanes(self) -> int:
        """Rows of the weight matrix in a vector."""
        return self.format.lanes

    @property
    def extents(self) -> tuple[int, int]:
        """Blocks of features, of one vector each."""
        return self.format.row_blocks, 1

    @property
    def steps(self) -> tuple[int, ...]:
        """Taps, groups of a run of columns, one vector of each."""
        walked = _walked(self.contraction, self.format.depth)
        return (*walked, self.format.segment_groups, 1)

    def declare(self, engine: Engine) -> None:
        """Emit the parameter ``values``."""
        s = self.format
        shape = int64((*self.batch, s.row_blocks, s.groups, s.lanes * s.depth))
        self._values = T.arg("V", T.Buffer(shape, engine.held))

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return one group of columns, and its activations for all lanes."""
        s, wide = self.format, self.format.lanes * self.format.depth
        *taps, group, _ = at.steps
        walked = _walked(c, s.depth)
        row = c.input_index(at.lead, [*taps, *[0] * (len(c.taps) - len(walked))])
        start = first_column(group, s.depth, s.segment_cols) + c.group_start(at.block * s.lanes)
        position = flat(taps, walked) * s.segment_groups + group
        own = (*at.lead[: len(self.batch)], at.block, position)
        return Step(
            reads=[whole(x), self._values[(*own, slice(0, wide))]],
            vector=at.block,
            weights=engine.weights(self._values[(*own, tirx.Ramp(0, 1, wide))]),
            activations=engine.broadcast(x, row, start, s.lanes, s.segment_cols),
        )
