"""Weights on Hopper's tensor cores (``wgmma``): sums end in shared memory, as everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.swizzled_banks import THREADS, SwizzledBanksFormat
from tvm_sparse.formats.swizzled_blocks import EDGE, SwizzledBlocksFormat
from tvm_sparse.formats.swizzled_quads import WORDS, SwizzledQuadsFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.parts import add_parts
from tvm_sparse.ops.cuda.staging import SHARED
from tvm_sparse.ops.cuda.tile import round_up, store
from tvm_sparse.ops.cuda.wgmma_source import shared_bytes, wgmma_source
from tvm_sparse.ops.cuda.wgmma_weights import GROUP, GROUP_THREADS, KEPT, Weights
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, TILE, int64

WGMMA = "tile_wgmma"
"""Mark of the operator."""

ALIGNED = 8
"""Columns of activations that are copied at once: 16 bytes."""


@dataclass(frozen=True)
class WgmmaTile:
    """Rows and features of a thread block, the steps that its ring holds, and what they hold.

    ``rows`` is a multiple of 8 up to 256, ``features`` one of 64, ``stages`` at least 3. The steps
    of a tile of features are cut into ``parts``, of which a thread block has one.
    """

    rows: int
    features: int
    stages: int
    weights: Weights = KEPT
    parts: int = 1

    @property
    def groups(self) -> int:
        """Warpgroups that multiply."""
        return self.features // GROUP

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.groups * GROUP_THREADS * (1 + self.weights.teams)

    def nbytes(self, result: int) -> int:
        """Return the shared memory of a block: the ring, and its sums in ``result`` bytes each."""
        return self.ring + result * self.rows * (self.features + 40)

    @property
    def ring(self) -> int:
        """Bytes of the ring."""
        return shared_bytes(self.weights, self.rows, self.groups, self.stages)


def fits(c: Contraction) -> bool:
    """Whether there is a kernel: linear or 1x1, 16 bits, rows of whole pieces of 16 bytes."""
    plain = not c.taps or c.is_pointwise
    same = c.dtype in ("float16", "bfloat16") and c.out_dtype in (c.dtype, FLOAT_SUMS)
    alone = c.groups == 1 and not c.depthwise and not c.guarded
    return plain and alone and same and c.columns % ALIGNED == 0


def wgmma_blocks(c: Contraction, format: SwizzledBlocksFormat, tile: WgmmaTile) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``: ``Y[..., o] = sum_k X[..., k] * W[o, k]``.

    Sums are fp32, a result of 16 bits is rounded once. ``tile.features`` are the rows of a block.
    """
    shape = (format.stored, format.block_rows, EDGE)
    return _product(c, format.down, tile, lambda: _kept(format, shape, c.dtype))


def wgmma_banks(c: Contraction, format: SwizzledBanksFormat, tile: WgmmaTile) -> tirx.PrimFunc:
    """Return ``f(X, words, columns, starts, Y)`` for banks, otherwise as :func:`wgmma_blocks`."""
    shape = (format.tiles.stored, format.words, THREADS)
    return _product(c, format.down, tile, lambda: _kept(format.tiles, shape, "int32"))


def wgmma_matrix(c: Contraction, format: DenseFormat, tile: WgmmaTile) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)`` for a dense matrix, one of columns by features that fill tiles."""

    def arrays() -> Stored:
        values = T.arg("V", T.Buffer(int64((1, c.columns, format.lanes)), c.dtype))

        def of(block: Any) -> list[Any]:
            numbers = format.lanes, -(-c.columns // EDGE)
            place = values[0, 0, block * tile.features]
            return [T.address_of(place), *(tirx.const(n, "int32") for n in numbers)]

        return [values], of

    return _product(c, format.lanes // tile.features, tile, arrays)


def wgmma_two_four(c: Contraction, format: SwizzledQuadsFormat, tile: WgmmaTile) -> tirx.PrimFunc:
    """Return ``f(X, values, metadata, Y)`` for 2:4 weights, otherwise as :func:`wgmma_blocks`."""

    def arrays() -> Stored:
        down, steps = format.down, format.steps
        values = T.arg("V", T.Buffer(int64((down, steps, format.block_rows, EDGE)), c.dtype))
        words = T.arg("I", T.Buffer(int64((down, steps, tile.groups * WORDS)), "int32"))

        def of(block: Any) -> list[Any]:
            places = values[block, 0, 0, 0], words[block, 0, 0]
            return [*map(T.address_of, places), tirx.const(steps, "int32")]

        return [values, words], of

    return _product(c, format.down, tile, arrays)


Stored = tuple[list[Any], Callable[[Any], list[Any]]]
"""Buffers of weights, and what the function takes of them for a tile of features."""


def _kept(format: SwizzledBlocksFormat, shape: tuple[int, ...], dtype: str) -> Stored:
    """Return what kept tiles hold, an array of ``shape``, with their tables."""
    values = T.arg("V", T.Buffer(int64(shape), dtype))
    columns = T.arg("I", T.Buffer(int64((format.stored,)), "int32"))
    starts = T.arg("S", T.Buffer(int64((format.down + 1,)), "int32"))

    def of(block: Any) -> list[Any]:
        places = values[0, 0, 0], columns[0], starts[block]
        return [T.address_of(place) for place in places]

    return [values, columns, starts], of


def _product(
    c: Contraction, down: int, tile: WgmmaTile, arrays: Callable[[], Stored]
) -> tirx.PrimFunc:
    """Return the operator whose weights are ``arrays``, in ``down`` tiles of features."""
    total = math.prod(c.lead)
    rows, dtype = round_up(total, tile.rows), c.out_dtype if tile.parts == 1 else FLOAT_SUMS
    name, source = wgmma_source(
        tile.weights, (c.dtype, dtype), tile.rows, tile.groups, tile.stages, parts=tile.parts
    )
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        stored, of = arrays()
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            shape = int64((rows, tile.parts * down * tile.features))
            out = T.sblock_alloc_buffer(shape, dtype, scope=SHARED)
            grid = (rows // tile.rows, *int64((tile.parts * down, tile.threads)))
            with T.grid(*grid) as axes, T.sblock("contract"):
                row, block, _ = T.axis.remap("SSS", axes)
                region = out[_part(row, tile.rows), _part(block, tile.features)]
                T.reads(*map(_all, (x, *stored)))
                T.writes(region)
                T.sblock_attr({OPERATOR: WGMMA, TILE: [tile.rows, tile.features, EDGE]})
                ring = T.sblock_alloc_buffer(int64((tile.ring,)), "uint8", scope=SHARED)
                pitch, unit = tirx.Var("pitch", "int32"), tirx.Var("unit", "int32")
                view = T.match_buffer(
                    region,
                    [tile.rows, tile.features],
                    dtype,
                    strides=[pitch, unit],
                    offset_factor=ALIGNED,
                    scope=SHARED,
                )
                operands = [
                    view.access_ptr("w"),
                    pitch,
                    ring.access_ptr("rw"),
                    T.address_of(x[(0,) * len(x.shape)]),
                    *of(block % down),
                    tirx.Cast("int32", block // down),
                    tirx.Cast("int32", row * tile.rows),
                    tirx.Cast("int32", tirx.convert(total)),
                    tirx.const(c.columns, "int32"),
                ]
                T.evaluate(T.cuda.func_call(name, *operands, source_code=source))
            store(c, out if tile.parts == 1 else add_parts(c, out, tile.parts), y)
    return builder.get()


def _part(tile: Any, size: int) -> slice:
    return slice(tile * size, tile * size + size)


def _all(buffer: Any) -> Any:
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]
