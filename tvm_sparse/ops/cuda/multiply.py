"""The ways to multiply staged tiles: fused multiply-adds in fp32, or tensor cores."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS, Numerics, bits_of, is_float, sums_of
from tvm_sparse.machine.engine.registry import require_product
from tvm_sparse.ops.cuda import ptx
from tvm_sparse.ops.cuda.operands import Right, Steps, Sums, Taken
from tvm_sparse.ops.cuda.staging import SHARED
from tvm_sparse.ops.marks import OPERATOR, TILE, int64

LANES = 32
EDGE = 16
"""Rows and features of one tensor-core tile (two ``mma``), and its columns of 16 bits."""

ELEMENT_BITS = 16
"""Of what matrices are loaded by: two bytes are one such element."""

ROW_BYTES = 32
"""Bytes of the columns of such a tile."""

NEIGHBOURS = 4
"""Features that a thread of a product of scalars has side by side."""

REGISTERS = 8
"""Sums of a 16 x 16 tile that one lane holds, and its operands of 16 bits."""

Extents = tuple[int, int, int]
Region = Callable[[Any, Any, Any], Any]
"""Block and the numbers of a small tile -> that region of a staged one."""

Load = Callable[[tuple[Any, Any], Any, Any, Any], Any]
"""Ends of the registers, address, lane, pitch in 16 bits -> the call that loads a tile."""

Emit = Callable[[tuple[Any, Any], Any, Any, str], Any]
"""Ends of the sums, both fragments and their dtype -> the call that multiplies."""

Place = Callable[[Any, Any, Any], tuple[Any, Any]]
"""Lane, pair of registers, and which of the pair -> row and feature in the tile."""


class Multiplier(Protocol):
    """How ``xs[block, row, k]`` and the staged weights are multiplied."""

    def multiply(self, xs: tirx.Buffer, ws: tirx.Buffer, tile: Extents, result: str) -> Any:
        """Emit the product and return its buffer, as :class:`Sums` says.

        ``ws`` is what the weights staged. The result's dtype is that of the sums or ``result``.
        """


class Scalar:
    """One multiply-add an element: any dtype, exact fp32; the block is called ``contract``."""

    def multiply(self, xs: tirx.Buffer, ws: Right, tile: Extents, result: str) -> Any:
        """Emit ``contract``; the result is fp32, whatever is wanted, since it is in registers."""
        del result
        blocks, rows, columns = xs.shape
        features, sums = tile[1], Sums(tile[1], ws.each)
        out = sums.alloc(rows, blocks, FLOAT_SUMS)
        with T.grid(rows, blocks, *int64((features,)), columns) as axes, T.sblock("contract"):
            row, block, feature, k = T.axis.remap("SSSR", axes)
            left, right = xs[block, row, k], ws.at(block, k, feature)
            item, within = sums.item(block)
            place = (*item, row, within * features + feature)
            taken = Taken(ws.steps, 1)
            T.reads(left, right, *taken.reads(block))
            T.writes(out[place])
            T.sblock_attr({OPERATOR: "tile_scalar", TILE: list(tile)})
            with T.init():
                T.buffer_store(out, tirx.const(0, FLOAT_SUMS), list(place))
            with taken.only(block, k):
                T.buffer_store(out, out[place] + fp32(left) * fp32(right), list(place))
        return out


@dataclass(frozen=True)
class Instruction:
    """What a warp multiplies at a time: 16 rows, ``features`` and ``columns``, lane by lane.

    A block instance is one lane of one such product. Tiles, warps and the depth of the pipeline
    are then ordinary schedule decisions, and fragments are ordinary registers.
    """

    operator: str
    features: int
    columns: int
    held: tuple[int, int, int]
    """Elements of activations, of weights and of sums that a lane holds."""

    load: Load
    emit: Emit
    place: Place
    weights: str = ""
    """Type of the weights, if it is not that of activations."""

    def multiply(
        self,
        xs: tirx.Buffer,
        load_weights: Callable[[Any], None],
        tile: Extents,
        result: str,
        *,
        steps: Steps | None = None,
        each: Any = None,
    ) -> Any:
        """Emit ``load_a``, ``load_b``, ``contract``, ``unfold``; the last one rounds.

        ``load_weights`` emits ``load_b``, which fills the fragment that it is given. Only
        ``steps`` are multiplied, all if there are none. ``each`` is that of :class:`Sums`.
        """
        blocks, rows, columns = xs.shape[0], xs.shape[1] // EDGE, xs.shape[2] // self.columns
        across, dtype = tile[1] // self.features, str(xs.dtype)
        weights = self.weights or dtype
        lanes = [(LANES, held) for held in self.held]
        a = T.sblock_alloc_buffer(int64((blocks, rows, columns, *lanes[0])), dtype)
        b = T.sblock_alloc_buffer(int64((blocks, across, columns, *lanes[1])), weights)
        acc = T.sblock_alloc_buffer(int64((rows, blocks, across, *lanes[2])), sums_of(dtype))
        sums = Sums(tile[1], each)
        out = sums.alloc(rows * EDGE, blocks, result)
        taken = Taken(steps, self.columns)

        def source(at: Any, i: Any, k: Any) -> Any:
            return xs[at, edge(i), edge(k, self.columns)]

        load_tile("load_a", source, a, self.load, taken)
        load_weights(b)
        self._contract(a, b, acc, tile, taken)
        unfold(acc, out, (EDGE, self.features), self.place, sums)
        return out

    def _contract(self, a: Any, b: Any, acc: tirx.Buffer, tile: Extents, taken: Taken) -> None:
        """Emit the product of two fragments."""
        rows, blocks, across = acc.shape[:3]
        with T.grid(rows, blocks, across, *int64((LANES,)), a.shape[2]) as axes:
            with T.sblock("contract"):
                row, block, feature, lane, k = T.axis.remap("SSSSR", axes)
                here = (row, block, feature, lane)
                left, right = (block, row, k, lane), (block, feature, k, lane)
                parts = [slice(0, held) for held in self.held]
                T.reads(a[(*left, parts[0])], b[(*right, parts[1])], *taken.reads(block))
                T.writes(acc[(*here, parts[2])])
                T.sblock_attr({OPERATOR: self.operator, TILE: list(tile)})
                zero_sums(acc, here)
                ends = (T.address_of(acc[(*here, 0)]), T.address_of(acc[(*here, self.held[2] - 1)]))
                operands = (T.address_of(a[(*left, 0)]), T.address_of(b[(*right, 0)]))
                with taken.only(block, k):
                    T.evaluate(self.emit(ends, *operands, str(a.dtype)))


class TensorCore:
    """Tiles of 16 rows, 16 features and 32 bytes of columns, by two ``mma`` each.

    These are ``mma.m16n8k16`` on fp16 or bf16 with fp32 sums, ``mma.m16n8k32`` on bytes with sums
    of int32. Bytes of weights lie features first: nothing on chip turns them.
    """

    def multiply(self, xs: tirx.Buffer, ws: Right, tile: Extents, result: str) -> Any:
        """Emit the product of fragments."""
        dtype, weights = str(xs.dtype), str(ws.buffer.dtype)
        columns = ROW_BYTES * 8 // bits_of(dtype)
        operator = "tile_tensor_core" if is_float(dtype) else "tile_bytes"
        load = functools.partial(ptx.load, ptx.Form.LEFT)
        operands = EDGE * columns // LANES
        held = (operands, operands, REGISTERS)
        emit = functools.partial(ptx.multiply, weights=weights)
        mma = Instruction(operator, EDGE, columns, held, load, emit, _place, weights)
        form = ptx.Form.RIGHT if ws.features_first else ptx.Form.RIGHT_TRANSPOSED

        def load_weights(b: Any) -> None:
            load, taken = functools.partial(ptx.load, form), Taken(ws.steps, columns)

            def source(at: Any, i: Any, k: Any) -> Any:
                return ws.at(at, edge(k, columns), edge(i))

            load_tile("load_b", source, b, load, taken)

        return mma.multiply(xs, load_weights, tile, result, steps=ws.steps, each=ws.each)


def load_tile(name: str, source: Region, fragment: Any, load: Load, taken: Taken) -> None:
    """Emit the block that takes tiles in shared memory to the registers of warps."""
    held = int(fragment.shape[4])
    with T.grid(*fragment.shape[:3], *int64((LANES, 1))) as axes, T.sblock(name):
        # The last axis has one point: compute_at wants a variable in each written dimension.
        block, tile, k, lane, one = T.axis.remap("SSSSS", axes)
        region = source(block, tile, k)
        T.reads(region, *taken.reads(block))
        T.writes(fragment[block, tile, k, lane, one * held : one * held + held])
        pitch, unit = tirx.Var("pitch", "int32"), tirx.Var("unit", "int32")
        # A view with access_ptr("r"): the synchronisation pass must see that this reads.
        view = T.match_buffer(
            region,
            [int(axis.extent) for axis in region.region[1:]],
            str(fragment.dtype),
            strides=[pitch, unit],
            offset_factor=REGISTERS,
            scope=SHARED,
        )
        first = fragment[block, tile, k, lane, one * held]
        last = fragment[block, tile, k, lane, one * held + held - 1]
        ends = (T.address_of(first), T.address_of(last))
        apart = pitch // (ELEMENT_BITS // bits_of(str(fragment.dtype)))
        with taken.only(block, k):
            T.evaluate(load(ends, view.access_ptr("r"), tirx.Cast("int32", lane), apart))


def edge(tile: Any, size: int = EDGE) -> slice:
    """Return the rows or columns of a tile."""
    return slice(tile * size, tile * size + size)


def zero_sums(acc: tirx.Buffer, here: tuple[Any, ...]) -> None:
    """Emit the start of a lane's sums."""
    with T.init(), T.unroll(tirx.const(int(acc.shape[4]), "int64")) as register:
        T.buffer_store(acc, tirx.const(0, str(acc.dtype)), [*here, register])


def unfold(
    acc: tirx.Buffer, out: tirx.Buffer, sides: tuple[int, int], place_of: Place, sums: Sums
) -> None:
    """Emit the block that gives each register of the sums its row and feature.

    ``sides`` are the rows and features of a tile.
    """
    rows, blocks, across = acc.shape[:3]
    pairs = int(acc.shape[4]) // 2
    with T.grid(rows, blocks, across, *int64((LANES, pairs, 2))) as axes, T.sblock("unfold"):
        row, block, feature, lane, high, low = T.axis.remap("SSSSSS", axes)
        value = acc[row, block, feature, lane, high * 2 + low]
        down, right = place_of(lane, high, low)
        item, within = sums.item(block)
        place = [*item, row * sides[0] + down, (within * across + feature) * sides[1] + right]
        T.reads(value)
        T.writes(out[tuple(place)])
        dtype = str(out.dtype)
        same = dtype == str(acc.dtype)
        T.buffer_store(out, value if same else tirx.Cast(dtype, value), place)


def _place(lane: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Return where register ``2 high + low`` of the sums of two ``mma`` lies in a 16 x 16 tile.

    (PTX ISA, "Matrix Fragments for mma.m16n8k16", and the same for ``m16n8k32``.)
    """
    return high % 2 * 8 + lane // 4, high // 2 * 8 + lane % 4 * 2 + low


def fp32(value: Any) -> Any:
    """Return ``value`` as fp32."""
    return value if str(value.ty.dtype) == FLOAT_SUMS else tirx.Cast(FLOAT_SUMS, value)


def multiplier(numerics: Numerics) -> Multiplier:
    """Return how values are multiplied: fp32 stays exact, it takes no tensor core."""
    require_product(numerics)
    return Scalar() if numerics.activation == FLOAT_SUMS else TensorCore()
