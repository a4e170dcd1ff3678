"""Tiled contraction on GPUs: a thread block stages activations and weights, then multiplies them.

Whatever the weights are (dense, packed, whole blocks), their tile is dense once it is staged; the
kinds differ in how they stage it (:mod:`tvm_sparse.ops.cuda.weights`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.engine.registry import require_tiles
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.multiply import Multiplier
from tvm_sparse.ops.cuda.parts import add_parts
from tvm_sparse.ops.cuda.staging import SHARED
from tvm_sparse.ops.marks import FUSION, OUT_FUSABLE, VECTOR, flat, int64

VECTOR_BITS = 128
"""Bits of the widest load."""

SIGN = tirx.const(31, "int64")
"""Place of the sign of a 32-bit number, and one of many copies of it in a longer one."""

COPIES = ("stage_x", "stage_w", "stage_v", "stage_i")
"""Names of the blocks that copy to the chip: activations; dense weights, or values and indices."""

DECODE = "decode_w"
"""Name of the block that makes a dense tile of weights from values and indices."""


@dataclass(frozen=True)
class ThreadBlockTile:
    """Output rows and features of a thread block, and the columns that it stages at a time.

    The reduction is cut into ``parts``, each of which has thread blocks of its own.
    """

    rows: int
    features: int
    columns: int
    parts: int = 1


class RightOperand(Protocol):
    """The right operand of a tiled contraction."""

    @property
    def blocks(self) -> int:
        """Blocks of ``tile.features`` rows of the weight matrix, for each part of the reduction.

        The blocks of a part follow one another.
        """

    @property
    def columns(self) -> int:
        """Reduction length of a block, a multiple of ``tile.columns``."""

    @property
    def run(self) -> int:
        """Neighbouring reduction steps that are neighbouring columns, aligned to as many."""

    def declare(self, dtype: str) -> None:
        """Emit the function's parameters."""

    def column(self, block: Any, k: Any) -> Any:
        """Column of the weight matrix that reduction step ``k`` of a feature block stands for."""

    def looked_up(self, block: Any, k: Any) -> list[Any]:
        """Return what :meth:`column` reads."""

    def counts(self, block: Any, k: Any, vector: int) -> list[Any]:
        """Return the conditions that step ``k``, of ``vector`` neighbours, reads the input."""

    def right(self, dtype: str) -> Any:
        """Emit the blocks that stage a tile, and return what a multiplier multiplies."""


def tiled(
    c: Contraction, weights: RightOperand, tile: ThreadBlockTile, multiplier: Multiplier
) -> tirx.PrimFunc:
    """Return ``f(X, *weights, Y)``: ``Y[..., o] = sum_k X[..., column(o, k)] * W[o, k]``.

    Sums are fp32, the result is rounded to ``c.out_dtype`` once. Those of bytes are int32, as the
    result is. Where a byte that is not zero means zero, ``Z`` before ``Y`` has a number to add for
    each feature (:mod:`tvm_sparse.formats.offsets`). Rows, features and columns are
    filled up with zeros to whole tiles on chip only. Sums of several parts of the reduction are
    added in the order of the parts.
    """

    def stage(x: tirx.Buffer, xs: tirx.Buffer) -> None:
        stage_activations(c, x, xs, weights)

    return staged(c, c.input_shape, weights, tile, multiplier, stage=stage)


def staged(
    c: Contraction,
    input_shape: tuple[Any, ...],
    weights: RightOperand,
    tile: ThreadBlockTile,
    multiplier: Multiplier,
    *,
    stage: Callable[[Any, Any], None],
) -> tirx.PrimFunc:
    """Return :func:`tiled` for an input of ``input_shape`` that ``stage`` brings on chip.

    ``stage`` gets the input and ``xs[block, row, k]``, which it fills.
    """
    rows = round_up(math.prod(c.lead), tile.rows)
    require_tiles(c.numerics)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(input_shape), c.dtype))
        weights.declare(c.numerics.weight)
        offsets = declare_offsets(c)
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            shape = int64((weights.blocks, rows, weights.columns))
            xs = T.sblock_alloc_buffer(shape, c.dtype, scope=SHARED)
            stage(x, xs)
            right = weights.right(c.numerics.weight)
            extents = (tile.rows, tile.features, tile.columns)
            whole = tile.parts == 1
            result = c.out_dtype if whole else c.numerics.accumulate
            out = multiplier.multiply(xs, right, extents, result)
            store(c, out if whole else add_parts(c, out, tile.parts), y, offsets)
    return builder.get()


def stage_activations(
    c: Contraction, x: tirx.Buffer, xs: tirx.Buffer, weights: RightOperand
) -> None:
    """Emit the block that gathers ``xs[block, row, k]``; outside the input it is zero."""
    plain = len(c.lead) - len(c.taps)
    rows, total = math.prod(c.lead), math.prod(c.taps) * c.columns
    # Whole vectors of channels are inside or outside: one condition serves a vector load.
    vector = math.gcd(c.columns, weights.run, VECTOR_BITS // int(xs.dtype.bits))
    with T.grid(*xs.shape) as axes, T.sblock("stage_x"):
        block, place, k = T.axis.remap("SSS", axes)
        row: Any = place
        column, table = weights.column(block, k), weights.looked_up(block, k)
        inside = [column // vector < total // vector]
        if table:
            # TVM computes addresses of copies outside of their conditions, simplified by what these
            # say: a table would be read past its end. So the sign bit says which rows there are,
            # and others have the last one's addresses. Reading that one for each of them would do,
            # but all thread blocks ask for it: half the speed (docs/performance/gpu_rows.md).
            inside = [tirx.shift_right(rows - 1 - place, SIGN) == 0, *inside]
            row = tirx.min(row, rows - 1)
        else:
            inside = [row < rows, *inside]
        index = c.input_index(unflat(row, c.lead), unflat(column // c.columns, c.taps))
        inside += weights.counts(block, k, vector)
        if c.borders:
            for i, extent in zip(index[plain:], c.padded, strict=True):
                inside += [i >= 0, i < extent]
        value = x[(*index, column % c.columns)]
        T.reads(value, *table)
        T.writes(xs[block, place, k])
        T.sblock_attr({VECTOR: vector})
        zero = tirx.const(0, c.dtype)
        T.buffer_store(xs, tirx.if_then_else(tirx.all(*inside), value, zero), [block, place, k])


def declare_offsets(c: Contraction) -> Any:
    """Emit the parameter that has a number to add to each feature; ``None`` if there is none."""
    if not c.zero_point:
        return None
    return T.arg("Z", T.Buffer(int64((c.features,)), c.numerics.accumulate))


def store(c: Contraction, out: tirx.Buffer, y: tirx.Buffer, offsets: Any = None) -> None:
    """Emit the block that writes ``out[row, feature]``, and an offset, to the output's own axes."""
    with T.grid(*int64(c.output_shape)) as axes, T.sblock("store"):
        *lead, feature = T.axis.remap("S" * len(c.output_shape), axes)
        # Of a single row, one axis says which threads hold it: a sum of several hides it from TVM.
        row = lead[0] if all(is_one(extent) for extent in c.lead) else flat(lead, c.lead)
        parts = [out[row, feature], *([] if offsets is None else [offsets[feature]])]
        T.reads(*parts)
        T.writes(y[(*lead, feature)])
        value = sum(parts[1:], parts[0])
        if str(out.dtype) != c.out_dtype:
            value = tirx.Cast(c.out_dtype, value)
        T.buffer_store(y, value, [*lead, feature])


def is_one(extent: Any) -> bool:
    """Whether an extent (an int or symbolic) is known to be one."""
    return isinstance(extent, int) and extent == 1


def round_up(extent: Any, step: int) -> Any:
    """Return ``extent`` (an int or symbolic) as a multiple of ``step``.

    In this form TVM proves for symbolic ones that it is no less than ``extent``.
    """
    return ((extent - 1) // step + 1) * step


def unflat(position: Any, extents: tuple[Any, ...]) -> list[Any]:
    """Undo :func:`~tvm_sparse.ops.marks.flat`; positions past the end show in the first index."""
    index = []
    for extent in reversed(extents[1:]):
        index.append(position % extent)
        position = position // extent
    return [position, *reversed(index)] if extents else []
