"""Products with few rows of activations: the weight streams by once, a warp takes whole rows of it.

With so few rows the weight's bytes decide the time. Every row has equally many bytes, so the weight
is one linear stream without row pointers; the lanes of a warp read neighbouring 16-byte pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.lane_banks import LANES, LaneBanksFormat
from tvm_sparse.machine.engine.registry import require_gpu
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends
from tvm_sparse.ops.cuda.multiply import fp32
from tvm_sparse.ops.cuda.parts import add_parts
from tvm_sparse.ops.cuda.staging import SHARED
from tvm_sparse.ops.cuda.tile import VECTOR_BITS, round_up, store, unflat
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, TILE, VECTOR, int64

ONE_BLOCK_BYTES = 100 << 10
"""Staged activations beyond which an SM holds one thread block."""

FP32_STAGE_BYTES = 64 << 10
"""Activations are staged as fp32, which saves a conversion a product, while they take no more."""

EFFICIENCY = 0.85
"""Part of the bandwidth of a copy that a stream is taken to reach."""

DENSE_STEPS = 8
"""Vectors of a dense row that a lane requests at once, at most."""

Index = tuple[Any, ...]


@dataclass(frozen=True)
class Warps:
    """Warps of a thread block, and weight rows that each of them takes.

    The reduction is cut into ``parts``, each of which has thread blocks of its own.
    """

    count: int
    rows: int
    parts: int = 1

    @property
    def block(self) -> int:
        """Weight rows of a thread block."""
        return self.count * self.rows


def choose_warps(rows: int, sms: int, staged: int = 0) -> Warps:
    """Return warps such that a weight of ``rows`` rows keeps all SMs busy.

    ``staged`` bytes of activations that only one thread block of an SM can hold ask for many warps
    in it, and for as few thread blocks as there are SMs.
    """
    if staged > ONE_BLOCK_BYTES:
        return Warps(32, max(1, math.ceil(rows / (32 * sms))))
    count = 8 if rows >= 8 * sms else 4
    return Warps(count, 2 if rows >= 16 * sms else 1)


@dataclass(frozen=True)
class Cut:
    """Weight rows of a stream, filled up, once for each part of the reduction: part after part."""

    format: LaneBanksFormat
    warps: Warps

    def __post_init__(self) -> None:
        """Refuse parts that do not have equally many chunks."""
        if self.format.chunks % self.warps.parts:
            found = f"{self.format.chunks} chunks in {self.warps.parts} parts"
            raise UnsupportedError("weight stream", found, "parts that divide the chunks")

    @property
    def rows(self) -> int:
        """Weight rows of a part."""
        return int(round_up(self.format.rows, self.warps.block))

    @property
    def chunks(self) -> int:
        """Chunks of a part."""
        return self.format.chunks // self.warps.parts

    @property
    def slots(self) -> int:
        """Slots of a lane in a part."""
        return self.chunks * self.format.chunk

    @property
    def turns(self) -> int:
        """Banks of a lane that a part touches: parts may end inside of a bank."""
        s, slots = self.format, self.slots
        ends = (min(s.turns, -(-(part + 1) * slots // s.keep)) for part in range(self.warps.parts))
        return max(end - part * slots // s.keep for part, end in enumerate(ends))

    @property
    def columns(self) -> int:
        """Columns of staged activations: whole turns of 32 banks."""
        return self.turns * self.format.bank * LANES

    def first(self, part: Any) -> Any:
        """Return the first bank of a lane that a part touches."""
        return part * self.slots // self.format.keep

    def place(self, row: Any) -> tuple[Any, Any]:
        """Return the row of the matrix, and the part, of one of all parts' rows."""
        if self.warps.parts == 1:
            return row, tirx.const(0, "int64")
        return row % self.rows, row // self.rows


def staged_bytes(c: Contraction, cut: Cut) -> int:
    """Return the shared memory that the activations take."""
    size = 4 if stage_dtype(c, cut) == FLOAT_SUMS else 2
    return cut.columns * padded_rows(math.prod(c.lead)) * size


def result_bytes(c: Contraction, warps: Warps) -> int:
    """Return the shared memory that the results of a thread block take."""
    return padded_rows(math.prod(c.lead)) * warps.block * 4


def padded_rows(rows: int) -> int:
    """Return the power of two that holds ``rows``: what a column of staged activations holds."""
    return 1 << (rows - 1).bit_length()


def stage_dtype(c: Contraction, cut: Cut) -> str:
    """Return the dtype of staged activations."""
    size = cut.columns * padded_rows(math.prod(c.lead)) * 4
    return FLOAT_SUMS if size <= FP32_STAGE_BYTES else c.dtype


def stream_balanced(c: Contraction, s: LaneBanksFormat, warps: Warps) -> tirx.PrimFunc:
    """Return ``f(X, values, indices, Y)`` for a contraction without taps, of a static lead.

    ``X`` is staged so that column ``e`` of bank ``l + 32 t`` lies at ``(t * bank + e) * 32 + l``:
    a lane reads its own banks only, and 32 lanes never meet in one bank of shared memory, whatever
    the indices are. (Balanced sparsity: Yao et al., AAAI 2019, section 4: one thread a bank.)
    Of several parts, each stages what its columns are.
    """
    cut = Cut(s, warps)
    rows, dtype = padded_rows(math.prod(c.lead)), stage_dtype(c, cut)
    require_gpu(c.numerics)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        slots = (s.chunks, s.chunk // s.vector, LANES, s.vector)
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        values = T.arg("V", T.Buffer(int64((s.rows, *slots)), c.dtype))
        indices = T.arg("I", T.Buffer(int64((s.rows, s.chunks, *s.word_shape)), "int32"))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            shape, weights = (warps.parts, cut.columns, rows), warps.parts * cut.rows
            own = (cut.chunks, *slots[1:])
            xs = T.sblock_alloc_buffer(int64(shape), dtype, scope=SHARED)
            gathered = T.sblock_alloc_buffer(int64((weights, *own, rows)), dtype)
            part = T.sblock_alloc_buffer(int64((weights, LANES, rows)), FLOAT_SUMS)
            _stage(c, cut, x, xs)
            streamed = _filled_up("stage_w", values, cut)
            _gather(cut, _filled_up("stage_i", indices, cut), xs, gathered)
            _accumulate(streamed, own, lambda at, row: gathered[(*at, row)], part)
            out = _total(part, warps)
            store(c, add_parts(c, out, warps.parts) if warps.parts > 1 else out, y)
    return builder.get()


def stream_dense(c: Contraction, s: DenseFormat, warps: Warps) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)`` for row-major weights (``s.lanes`` is 1) without taps."""
    vector = math.gcd(s.cols, VECTOR_BITS // c.numerics.bits)
    steps = math.ceil(s.cols / (LANES * vector))
    slots = (math.ceil(steps / DENSE_STEPS), min(steps, DENSE_STEPS), LANES, vector)
    rows = math.prod(c.lead)
    require_gpu(c.numerics)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        matrix = T.arg("V", T.Buffer(int64((s.rows, s.cols, 1)), c.dtype))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            weights = round_up(s.rows, warps.block)
            values = T.sblock_alloc_buffer(int64((weights, *slots)), c.dtype)
            xs = T.sblock_alloc_buffer(int64((rows, *slots)), c.dtype)
            part = T.sblock_alloc_buffer(int64((weights, LANES, rows)), FLOAT_SUMS)
            last = tirx.const(s.rows - 1, "int64")
            _in_lanes("stage_x", xs, s.cols, lambda row, k: x[(*unflat(row, c.lead), k)])
            _in_lanes("stage_w", values, s.cols, lambda row, k: matrix[tirx.min(row, last), k, 0])
            _accumulate(values, slots, lambda at, row: xs[(row, *at[1:])], part)
            store(c, _total(part, warps), y)
    return builder.get()


def _stage(c: Contraction, cut: Cut, x: tirx.Buffer, xs: tirx.Buffer) -> None:
    """Emit the blocks that read ``x``, zero outside, and lay its banks side by side."""
    s, clamped = cut.format, mends.in_use().clamped_loads
    widest = VECTOR_BITS // int(x.dtype.bits)
    vector = math.gcd(c.columns, s.bank, widest)
    parts, _, rows = xs.shape
    banks, zero = int64((cut.turns, LANES, s.bank)), tirx.const(0, c.dtype)

    def column_of(part: Any, turn: Any, lane: Any, e: Any) -> tuple[Any, Any]:
        """Return a column, and whether it is inside; whole vectors are."""
        column = ((cut.first(part) + turn) * LANES + lane) * s.bank + e
        return column, column // vector < c.columns // vector

    read = T.sblock_alloc_buffer([parts, rows, *banks], c.dtype)
    with T.grid(*read.shape) as axes, T.sblock("load_x"):
        part, row, turn, lane, e = T.axis.remap("SSSSS", axes)
        column, inside = column_of(part, turn, lane, e)
        place: Any = row
        if clamped:
            last = tirx.const(c.columns // vector - 1, "int64")
            column = tirx.min(column // vector, last) * vector + column % vector
            place = tirx.min(row, tirx.const(math.prod(c.lead) - 1, "int64"))
        value = x[(*unflat(place, c.lead), column)]
        T.reads(value)
        T.writes(read[part, row, turn, lane, e])
        T.sblock_attr({VECTOR: vector if clamped else widest})
        if not clamped:
            value = tirx.if_then_else(tirx.all(inside, row < math.prod(c.lead)), value, zero)
        T.buffer_store(read, value, [part, row, turn, lane, e])
    with T.grid(parts, *banks, rows) as axes, T.sblock("stage_x"):
        part, turn, lane, e, row = T.axis.remap("SSSSS", axes)
        value = read[part, row, turn, lane, e]
        _, inside = column_of(part, turn, lane, e)
        T.reads(value)
        at = [part, (turn * s.bank + e) * LANES + lane, row]
        T.writes(xs[tuple(at)])
        if str(xs.dtype) != c.dtype:
            value = tirx.Cast(str(xs.dtype), value)
        if clamped:  # a zero times what lies at the end may be NaN
            value = tirx.Select(inside, value, tirx.const(0, str(xs.dtype)))
        T.buffer_store(xs, value, at)


def _gather(cut: Cut, indices: Any, xs: tirx.Buffer, gathered: Any) -> None:
    """Emit the block ``gather``: the activations that one slot multiplies."""
    s = cut.format
    with T.grid(*gathered.shape) as axes, T.sblock("gather"):
        weight, chunk, step, lane, j, row = T.axis.remap("SSSSSS", axes)
        slot = step * s.vector + j
        number = slot // s.slots_per_word
        place = (number // s.beside, lane, number % s.beside) if s.beside else (lane, number)
        word = indices[(weight, chunk, *place)]
        part = cut.place(weight)[1]
        T.reads(word, xs[part, 0 : xs.shape[1], row])
        T.writes(gathered[weight, chunk, step, lane, j, row])
        shift = tirx.Cast("int32", slot % s.slots_per_word * s.index_bits)
        mask = tirx.const((1 << s.index_bits) - 1, "int32")
        inner = tirx.bitwise_and(tirx.shift_right(word, shift), mask)
        # e * 32 + lane without an addition.
        own = tirx.bitwise_or(
            tirx.shift_left(inner, tirx.const(5, "int32")), tirx.Cast("int32", lane)
        )
        turn = ((part * cut.chunks + chunk) * s.chunk + slot) // s.keep
        if s.slots > s.turns * s.keep:
            turn = tirx.min(turn, tirx.const(s.turns - 1, "int64"))
        value = xs[part, (turn - cut.first(part)) * (s.bank * LANES) + own, row]
        T.buffer_store(gathered, value, [weight, chunk, step, lane, j, row])


def _in_lanes(name: str, out: tirx.Buffer, cols: int, source: Callable[[Any, Any], Any]) -> None:
    """Emit a block that deals a matrix's columns out to lanes, ``vector`` neighbours each."""
    vector, steps = int(out.shape[-1]), int(out.shape[-3])
    with T.grid(*out.shape) as axes, T.sblock(name):
        row, chunk, step, lane, j = T.axis.remap("SSSSS", axes)
        k = ((chunk * steps + step) * LANES + lane) * vector + j
        value = source(row, k)
        place = [row, chunk, step, lane, j]
        T.reads(value)
        T.writes(out[tuple(place)])
        if cols % (steps * LANES * vector):
            inside = k // vector < cols // vector
            value = tirx.if_then_else(inside, value, tirx.const(0, str(out.dtype)))
        T.buffer_store(out, value, place)


def _filled_up(name: str, source: tirx.Buffer, cut: Cut) -> Any:
    """Emit a block that copies the chunks of each part of ``source``, and repeats its last row."""
    size = int64((cut.warps.parts * cut.rows, cut.chunks))
    out = T.sblock_alloc_buffer([*size, *source.shape[2:]], str(source.dtype))
    with T.grid(*out.shape) as axes, T.sblock(name):
        row, chunk, *place = T.axis.remap("S" * len(out.shape), axes)
        weight, part = cut.place(row)
        weight = tirx.min(weight, source.shape[0] - 1)
        value = source[(weight, part * cut.chunks + chunk, *place)]
        T.reads(value)
        T.writes(out[(row, chunk, *place)])
        T.buffer_store(out, value, [row, chunk, *place])
    return out


def _accumulate(
    values: Any, slots: tuple[int, ...], activation: Callable[[Index, Any], Any], part: Any
) -> None:
    """Emit the block ``contract``: the sum of one lane of one weight row, in fp32."""
    chunks, steps, _, vector = slots
    grid = (*part.shape, *int64((chunks, steps, vector)))
    with T.grid(*grid) as axes, T.sblock("contract"):
        weight, lane, row, chunk, step, j = T.axis.remap("SSSRRR", axes)
        value = values[weight, chunk, step, lane, j]
        other = activation((weight, chunk, step, lane, j), row)
        T.reads(value, other)
        T.writes(part[weight, lane, row])
        with T.init():
            T.buffer_store(part, tirx.const(0, FLOAT_SUMS), [weight, lane, row])
        total = part[weight, lane, row] + fp32(value) * fp32(other)
        T.buffer_store(part, total, [weight, lane, row])


def _total(part: Any, warps: Warps) -> Any:
    """Emit the block ``total`` that adds up the lanes; return ``[row, weight row]``."""
    weights, lanes, rows = part.shape
    out = T.sblock_alloc_buffer([rows, weights], FLOAT_SUMS)
    with T.grid(weights, rows, lanes) as axes, T.sblock("total"):
        weight, row, lane = T.axis.remap("SSR", axes)
        T.reads(part[weight, lane, row])
        T.writes(out[row, weight])
        T.sblock_attr({OPERATOR: "stream", TILE: [warps.count, warps.rows]})
        with T.init():
            T.buffer_store(out, tirx.const(0, FLOAT_SUMS), [row, weight])
        T.buffer_store(out, out[row, weight] + part[weight, lane, row], [row, weight])
    return out
