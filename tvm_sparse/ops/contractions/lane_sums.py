"""Sums of compressed rows with lanes along the batch, for any layout of the activations."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import bits_of, vector_type
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.packed_rows import VECTORS, ramp
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, int64
from tvm_sparse.ops.transpose import LANES

CHAINS = 8
"""Multiply-adds that should not wait for one another: two a cycle, of which each takes four."""

TOGETHER = 4
"""Single values that are loaded together."""

LONG = 32
"""Entries of a slot from which a turn has twice as many: with fewer, too many are left over."""

WORD = 64
"""Bits of the places that are loaded together."""


class Plan(Protocol):
    """Extents of one operator, and where its activations lie."""

    operator: ClassVar[str]

    @property
    def c(self) -> Contraction:
        """What is computed."""

    @property
    def s(self) -> CompressedRowsFormat:
        """How the weight is stored."""

    @property
    def engine(self) -> Engine:
        """What multiplies."""

    @property
    def vectors(self) -> int:
        """Vectors of output rows of a tile."""

    @property
    def span(self) -> int:
        """Output rows of a tile."""

    @property
    def tiles(self) -> Any:
        """Tiles of output rows."""

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes the input."""

    @property
    def input_shape(self) -> tuple[Any, ...]:
        """Shape of the input."""

    @property
    def output_shape(self) -> tuple[Any, ...]:
        """Shape of the output."""

    def results(self, lanes: tirx.Buffer, y: tirx.Buffer) -> None:
        """Emit the blocks that bring sums ``(features, rows)`` to the output."""

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return the region of ``packed`` that a row tile reads for rows from ``first`` on."""

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that an entry's column ``k`` meets in row ``n``.

        ``stored`` is what the format says of the entry's first column, in column tile ``across``.
        """


def lane_sums(plan: Plan, columns: str) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts[, groups], Y)``; ``columns`` is the second's type."""
    c = plan.c
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(plan.input_shape), c.dtype))
        stored = _declare(plan.s, plan.engine, columns)
        y = T.arg("Y", T.Buffer(int64(plan.output_shape), c.out_dtype))
        width, features = plan.tiles * plan.span, plan.s.row_tiles * plan.s.tile_rows
        with T.sblock("root"):
            packed, dtype = plan.alloc(c.dtype), c.numerics.accumulate
            lanes = T.sblock_alloc_buffer(int64((features, width)), dtype)
            plan.pack(x, packed)
            _contract(plan, packed, stored, lanes)
            plan.results(lanes, y)
    return builder.get()


def _declare(s: CompressedRowsFormat, engine: Engine, columns: str) -> list[Any]:
    """Declare the parameters of the format's arrays."""
    values = T.arg("V", T.Buffer(int64((s.entries, s.run, s.group)), engine.held))
    places = T.arg("C", T.Buffer(int64((s.entries,)), columns))
    starts = T.arg("S", T.Buffer(int64((s.slots + 1,)), "int32"))
    if s.tile_groups == 1:
        return [values, places, starts]
    return [values, places, starts, T.arg("G", T.Buffer(int64((s.slots,)), str(s.group_dtype)))]


def _contract(plan: Plan, packed: tirx.Buffer, stored: list[Any], lanes: Any) -> None:
    """Emit the block that computes one row tile of the weight for one tile of output rows."""
    s = plan.s
    starts = stored[2]
    with T.grid(*int64((plan.tiles, s.row_tiles))) as axes, T.sblock("contract"):
        tile, row_tile = T.axis.remap("SS", axes)
        first, feature = tile * plan.span, row_tile * s.tile_rows
        T.reads(plan.read(packed, row_tile, first), *map(whole, stored))
        T.writes(lanes[feature : feature + s.tile_rows, first : first + plan.span])
        T.sblock_attr({OPERATOR: plan.operator, VECTORS: plan.vectors})
        each = s.group * plan.span
        turn, chains = _turn(s, each // LANES)
        sums = T.sblock_alloc_buffer([each * chains], plan.c.numerics.accumulate, scope="local")
        tiles = [
            (member * plan.vectors + vector, member, first + vector * LANES)
            for member in range(s.group)
            for vector in range(plan.vectors)
        ]
        zero = plan.engine.zero(LANES)
        if s.col_tiles > 1:
            with T.serial(0, tirx.const(s.tile_rows, "int64")) as row:
                for vector in range(plan.vectors):
                    at = [feature + row, ramp(first + vector * LANES)]
                    T.buffer_store(lanes, zero, at)
        with T.grid(*int64((s.col_tiles, s.tile_groups))) as (across, nth):
            slot = (row_tile * s.col_tiles + across) * s.tile_groups + nth
            group = tirx.Cast("int64", stored[3][slot]) if s.tile_groups > 1 else 0
            home = feature + group * s.group
            for i, member, n in tiles:
                begin = lanes[home + member, ramp(n)] if s.col_tiles > 1 else zero
                T.buffer_store(sums, begin, [ramp(i * LANES)])
            begin = tirx.Cast("int64", starts[slot])
            count = tirx.Cast("int64", starts[slot + 1]) - begin
            buffers, place = (packed, *stored[:3], sums), (row_tile, across)
            further = [ramp(i * LANES) for i in range(len(tiles), len(tiles) * chains)]
            for where in further:
                T.buffer_store(sums, zero, [where])
            with T.serial(0, count // turn) as step:
                _entries(plan, buffers, tiles, (*place, begin + step * turn), turn, chains)
            if turn > 1:
                with T.serial(0, count % turn) as left:
                    last = begin + count // turn * turn
                    _entries(plan, buffers, tiles, (*place, last + left))
            for i, where in enumerate(further):
                own = ramp(i % len(tiles) * LANES)
                T.buffer_store(sums, sums[own] + sums[where], [own])
            for i, member, n in tiles:
                T.buffer_store(lanes, sums[ramp(i * LANES)], [home + member, ramp(n)])


def _turn(s: CompressedRowsFormat, each: int) -> tuple[int, int]:
    """Return how many entries follow without a loop, and the sums that they take turns in.

    Such a sum is ``each`` vectors of a tile.
    """
    chains = max(1, CHAINS // each)
    if s.group * s.run > 1:
        return max(1, chains // s.run), chains
    turn = TOGETHER * (2 if s.entries >= LONG * s.slots else 1)
    return turn, min(turn, chains)


def _entries(  # noqa: PLR0917
    plan: Plan,
    buffers: tuple[Any, ...],
    tiles: list[Any],
    at: tuple[Any, ...],
    many: int = 1,
    chains: int = 1,
) -> None:
    """Emit the multiply-adds of ``many`` entries, which take turns in ``chains`` sums."""
    packed, *stored, sums = buffers
    (row_tile, across, first), run = at, plan.s.run
    places = _places(stored[1], first, many)
    for step in range(many * run):
        entry, k = divmod(step, run)
        for i, member, n in tiles:
            where = ramp((i + step % chains * len(tiles)) * LANES)
            activations = packed[tuple(plan.place(row_tile, across, places[entry], k, n))]
            weights = plan.engine.weights(_value(stored, (first, k, member), entry, many))
            total = plan.engine.multiply(sums[where], weights, activations)
            T.buffer_store(sums, total, [where])


def _value(stored: list[Any], at: tuple[Any, int, int], entry: int, many: int) -> Any:
    """Return value ``entry`` of the ``many`` that begin at ``first``, copied into all lanes.

    Loads limit the loop, so single values are loaded together. LLVM would split that into a load of
    each value. The step ``starts[0]``, which is 0 but unknown to LLVM, keeps it from doing so.
    """
    values, _, starts = stored
    first, k, member = at
    if many == 1 or values.shape[1] * values.shape[2] > 1:
        return tirx.Broadcast(values[first + entry, k, member], LANES)
    begin = first + entry // TOGETHER * TOGETHER
    loaded = values[begin, 0, tirx.Ramp(0, 1, TOGETHER)]
    bits = f"int{bits_of(str(values.dtype))}"
    zero = tirx.Broadcast(tirx.Cast(bits, starts[0]), TOGETHER)
    word = tirx.bitwise_or(tirx.reinterpret(vector_type(bits, TOGETHER), loaded), zero)
    together = tirx.reinterpret(loaded.ty, word)
    lane = tirx.const(entry % TOGETHER, "int32")
    return tirx.Shuffle([together] * (LANES // TOGETHER), [lane] * LANES)


def _places(places: tirx.Buffer, first: Any, many: int) -> list[Any]:
    """Return the places of ``many`` entries, as many from one load as a word holds."""
    bits = bits_of(str(places.dtype))
    together = min(many, WORD // bits)
    if together == 1:
        return [tirx.Cast("int64", places[first])]
    found = []
    for begin in range(0, many, together):
        loaded = places[tirx.Ramp(first + begin, 1, together)]
        word = tirx.Cast("int64", tirx.reinterpret(f"uint{together * bits}", loaded))
        mask = tirx.const((1 << bits) - 1, "int64")
        found += [(word >> (i * bits)) & mask for i in range(together)]
    return found
