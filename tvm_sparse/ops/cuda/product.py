"""Products of two activations on GPUs, as attention has them: one for each item of a batch.

They are tiled contractions whose right operand is computed, too: a block of features belongs to one
item, whose matrices are staged for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from tvm_sparse.base.numerics import Numerics, bits_of, is_float
from tvm_sparse.machine.engine.registry import require_product
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.cuda.multiply import multiplier
from tvm_sparse.ops.cuda.staging import SHARED, copy
from tvm_sparse.ops.cuda.tile import VECTOR_BITS, ThreadBlockTile, round_up, unflat
from tvm_sparse.ops.cuda.weights import DenseTiles
from tvm_sparse.ops.marks import FUSION, OUT_FUSABLE, flat, int64


@dataclass
class Matrices(DenseTiles):
    """The right operands ``B[..., k, n]`` of a batch: each item has :attr:`across` blocks.

    ``lead`` are the axes of the batch, of which ``view`` may lack the first ones or have one item.
    """

    view: View
    lead: tuple[Any, ...]
    tile: ThreadBlockTile
    of_bytes: bool
    _base: Any = field(init=False, default=None)

    @property
    def across(self) -> Any:
        """Blocks of ``tile.features`` columns of an item."""
        return round_up(self.view.shapes[-1][-1], self.tile.features) // self.tile.features

    @property
    def each(self) -> Any:
        """Blocks of an item, if there is a batch."""
        return self.across if self.lead else None

    @property
    def blocks(self) -> Any:
        """Blocks of all items, those of an item side by side."""
        return self.across * math.prod(self.lead)

    @property
    def columns(self) -> Any:
        """Length of the reduction, up to a whole step."""
        return round_up(self.view.shapes[-1][-2], self.tile.columns)

    @property
    def features_first(self) -> bool:
        """Whether neighbours in memory are those of the reduction: a tile keeps their order.

        Those of bytes must be on chip, whatever they are in memory.
        """
        return self.of_bytes or not self.view.contiguous()

    def declare(self, dtype: str) -> None:
        """Emit the parameter ``B``."""
        self._base = T.arg("B", T.Buffer(int64(self.view.shape), dtype))

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit the block that copies a tile; outside of the matrices it is zero."""
        *_, length, features = self.view.shapes[-1]
        with T.grid(*ws.shape) as axes, T.sblock("stage_w"):
            place = T.axis.remap("SSS", axes)
            block, k, feature = (place[0], *place[:0:-1]) if self.features_first else place
            feature += block % self.across * self.tile.features
            item = unflat(block // self.across, self.lead)
            vector = neighbours(self.view, -2 if self.features_first else -1, str(ws.dtype))
            widths = (vector, 1) if self.features_first else (1, vector)
            ends = zip((k, feature), (length, features), widths, strict=True)
            inside = [i // width < n // width for i, n, width in ends]
            index = element(self.view, (*item, k, feature), zip(place, ws.shape, strict=True))
            copy(self._base[index], ws, place, inside, vector)


def product(
    left: View, right: View, lead: tuple[Any, ...], numerics: Numerics, tile: ThreadBlockTile
) -> tirx.PrimFunc:
    """Return ``f(A, B, Y)``: ``Y[..., m, n] = sum_k A[..., m, k] * B[..., k, n]``.

    Extents may be symbolic. ``A`` and ``B`` have the views' base shapes; their leading axes
    broadcast to ``lead`` as NumPy's do. Sums are fp32, the result is rounded once. Those of bytes
    are int32, as the result is; they are loaded one by one unless neighbours of ``B`` in memory
    are those of the reduction. Rows, columns and features are filled up with zeros to whole tiles
    on chip only.

    Raises
    ------
    UnsupportedError
        Kernels for GPUs were not tested with ``numerics``.
    """
    require_product(numerics)
    rows, features = left.shapes[-1][-2], right.shapes[-1][-1]
    matrices = Matrices(right, lead, tile, not is_float(numerics.weight))
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        a = T.arg("A", T.Buffer(int64(left.shape), numerics.activation))
        matrices.declare(numerics.weight)
        y = T.arg("Y", T.Buffer(int64((*lead, rows, features)), numerics.output))
        with T.sblock("root"):
            shape = (matrices.blocks, round_up(rows, tile.rows), matrices.columns)
            xs = T.sblock_alloc_buffer(int64(shape), numerics.activation, scope=SHARED)
            _stage_rows(left, a, xs, matrices)
            right_tile = matrices.right(numerics.weight)
            extents = (tile.rows, tile.features, tile.columns)
            out = multiplier(numerics).multiply(xs, right_tile, extents, numerics.output)
            _store(out, y)
    return builder.get()


def _stage_rows(left: View, a: tirx.Buffer, xs: tirx.Buffer, matrices: Matrices) -> None:
    """Emit the block that copies a tile of the left operand's rows."""
    *_, rows, length = left.shapes[-1]
    vector = neighbours(left, -1, str(xs.dtype))
    with T.grid(*xs.shape) as axes, T.sblock("stage_x"):
        place = T.axis.remap("SSS", axes)
        block, row, k = place
        item = unflat(block // matrices.across, matrices.lead)
        index = element(left, (*item, row, k), zip(place, xs.shape, strict=True))
        copy(a[index], xs, place, [row < rows, k // vector < length // vector], vector)


def _store(out: tirx.Buffer, y: tirx.Buffer) -> None:
    """Emit the block that writes ``out[item, row, feature]`` to the batch's own axes."""
    with T.grid(*y.shape) as axes, T.sblock("store"):
        *lead, row, feature = T.axis.remap("S" * len(y.shape), axes)
        item = [flat(lead, tuple(y.shape[:-2]))] if lead else []
        value = out[(*item, row, feature)]
        T.reads(value)
        T.writes(y[(*lead, row, feature)])
        if out.dtype != y.dtype:
            value = tirx.Cast(str(y.dtype), value)
        T.buffer_store(y, value, [*lead, row, feature])


def neighbours(view: View, axis: int, dtype: str) -> int:
    """Return how many neighbours along ``axis`` (-1 or -2) one load takes: aligned, 16 bytes."""
    places = np.moveaxis(view.sample().places(), axis, -1)
    if places.shape[-1] > 1 and (np.diff(places, axis=-1) != 1).any():
        return 1
    first = int(np.gcd.reduce(places[..., 0], axis=None))
    return math.gcd(VECTOR_BITS // bits_of(dtype), places.shape[-1], first)


def element(view: View, index: Sequence[Any], bounds: Iterable[tuple[Any, Any]]) -> tuple[Any, ...]:
    """Return where ``view`` has its element ``index``, whose first axes broadcast as NumPy's do.

    ``bounds`` are the variables of the index and their extents.
    """
    analyzer = Analyzer()
    for variable, extent in bounds:
        analyzer.bind(variable, tvm.ir.Range(0, extent))
    shape = view.shapes[-1]
    aligned = zip(index[len(index) - len(shape) :], shape, strict=True)
    own = [0 if extent == 1 else i for i, extent in aligned]
    return tuple(analyzer.simplify(i) for i in view.source(own))
