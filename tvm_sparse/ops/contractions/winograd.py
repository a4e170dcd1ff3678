"""Dense 3x3 convolution by Winograd's minimal filtering F(2x2, 3x3): 16 products for 36."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.formats.winograd import TILE, WinogradFormat
from tvm_sparse.machine.engine.registry import single_engine_of, supported_singly
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, WHOLE, int64

TRANSFORM = "transform"
"""Name of the block that transforms the input."""

STORE = "store"
"""Name of the block that transforms the products back."""


def fits(contraction: Contraction, target: Target) -> bool:
    """Whether there is such an operator: stride 1, whole vectors of channels, floats, CPUs."""
    c = contraction
    plain = (c.taps, c.strides, c.dilation) == ((3, 3), (1, 1), (1, 1)) and not c.depthwise
    plain = plain and c.groups == 1 and not c.guarded
    vectors = c.columns % LANES == 0 and c.features % LANES == 0
    if not (plain and vectors and not c.borders):
        return False
    # Transformed weights are fractions.
    single = c.numerics.floating and c.numerics.accumulate == FLOAT_SUMS
    return single and supported_singly(c.numerics, target)


def tiles(contraction: Contraction) -> tuple[int, int]:
    """Return the rows and columns of tiles that cover the output of an image, two by two.

    Open extents count as those that are typical.
    """
    height, width = contraction.typical_lead[1:]
    return -(-height // 2), -(-width // 2)


def work(contraction: Contraction) -> float:
    """Return the products relative to the direct sum, tiles that stick out included."""
    high, wide = tiles(contraction)
    _, height, width = contraction.typical_lead
    return TILE * TILE * high * wide / (9 * height * width)


def winograd(contraction: Contraction, format: WinogradFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)``: ``Y = A^T ((B^T X B) * values) A`` for each tile of 2 x 2.

    Shapes: ``X`` and ``Y`` as the contraction says, ``values`` as ``WinogradFormat.encode`` gives.
    Rounding errors are relative to the largest activation of a window times the sum of its
    weights. As in the direct sum, an output depends on its own window only, so that NaN stays
    where it belongs; an infinite activation gives NaN. Source: Lavin and Gray, "Fast Algorithms
    for Convolutional Neural Networks" (2016), section 4.1.
    """
    c, lanes = contraction, format.lanes
    engine = single_engine_of(c.numerics, target)
    batch = c.lead[0]
    high, wide = ((extent + 1) // 2 for extent in c.lead[1:])
    x = te.placeholder(int64(c.input_shape), c.dtype, "X")
    u = te.placeholder(int64(format.shape), engine.held, "V")
    column = te.reduce_axis((0, c.columns), "c")

    def transformed(n: Any, i: Any, j: Any, tile: Any, channel: Any) -> Any:
        def at(row: int, col: int) -> Any:
            y = _inside(tile // wide * 2 + row, 2 * high + 2, c.padded[0])
            return x[n, y, _inside(tile % wide * 2 + col, 2 * wide + 2, c.padded[1]), channel]

        return _inputs(j, lambda col: _inputs(i, lambda row: at(row, col)))

    windows = int64((batch, TILE, TILE, high * wide, c.columns))
    v = te.compute(windows, transformed, name=TRANSFORM, attrs={WHOLE: True})

    def product(*index: Any) -> Any:
        n, block, i, j, tile, lane = index
        values = u[block, i, j, column.var, lane]
        return te.sum(v[n, i, j, tile, column.var] * values, axis=[column])

    shape = int64((batch, format.shape[0], TILE, TILE, high * wide, lanes))
    acc = te.compute(shape, product, name="contract", attrs={OPERATOR: "winograd", WHOLE: True})

    def output(n: Any, y: tirx.Buffer, col: Any, f: Any) -> Any:
        tile = y // 2 * wide + col // 2

        def at(i: int, j: int) -> Any:
            return acc[n, f // lanes, i, j, tile, f % lanes]

        return _outputs(y % 2, lambda i: _outputs(col % 2, lambda j: at(i, j)))

    result = te.compute(int64(c.output_shape), output, name=STORE)
    func = te.create_prim_func([x, u, result]).with_attr(FUSION, OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)


def _inputs(i: Any, d: Callable[[int], Any]) -> Any:
    """Row ``i`` of ``B^T d``."""
    last = tirx.if_then_else(i == 2, d(2) - d(1), d(1) - d(3))
    return tirx.if_then_else(i == 0, d(0) - d(2), tirx.if_then_else(i == 1, d(1) + d(2), last))


def _outputs(i: Any, m: Callable[[int], Any]) -> Any:
    """Row ``i`` of ``A^T m``."""
    return tirx.if_then_else(i == 0, m(0) + m(1) + m(2), m(1) - m(2) - m(3))


def _inside(index: Any, touched: Any, extent: Any) -> Any:
    """Keep ``index`` below ``extent``: what lies beyond makes outputs that are not stored only."""
    if isinstance(extent, int):
        return index if touched <= extent else tirx.min(index, tirx.const(extent - 1, "int64"))
    return tirx.min(index, extent - 1)
