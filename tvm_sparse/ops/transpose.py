"""Transposition of a 16 x 16 tile in registers, in 64 two-operand shuffles."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import int64

LANES = 16
"""What the shuffles below are made for; that of every machine's vectors."""

QUADS = 4
"""Shuffles within quads of four lanes are cheap on every x86; those of whole quads come last."""


def _in_quads(*lanes: int) -> list[int]:
    """Return a shuffle that does the same in each quad; lane 16 is the second operand's first."""
    return [lane + QUADS * quad for quad in range(QUADS) for lane in lanes]


# Lanes from 16 on are those of the second operand.
LOW, HIGH = _in_quads(0, 16, 1, 17), _in_quads(2, 18, 3, 19)
# The same.
LOW_PAIRS, HIGH_PAIRS = _in_quads(0, 1, 16, 17), _in_quads(2, 3, 18, 19)
EVEN_QUADS = [lane for quad in range(0, 8, 2) for lane in range(QUADS * quad, QUADS * quad + QUADS)]
ODD_QUADS = [lane + QUADS for lane in EVEN_QUADS]


def transpose_tile(rows: list[Any]) -> list[Any]:
    """Return the columns of 16 vectors of 16 lanes: lane ``i`` of column ``j`` is ``rows[i][j]``.

    To be called inside a TVMScript builder; all values are bound to variables first, so results
    may be stored over what ``rows`` read.
    """
    wide = [T.bind(row) for row in rows]
    halves = [_turn_quads(wide[first : first + QUADS]) for first in range(0, LANES, QUADS)]
    columns: list[Any] = [None] * LANES
    for inner in range(QUADS):
        a, b, c, d = (half[inner] for half in halves)
        for start, quads in ((0, EVEN_QUADS), (QUADS, ODD_QUADS)):
            left, right = _shuffle(a, b, quads), _shuffle(c, d, quads)
            columns[start + inner] = _shuffle(left, right, EVEN_QUADS)
            columns[start + inner + 2 * QUADS] = _shuffle(left, right, ODD_QUADS)
    return columns


def transpose_quads(rows: list[Any], lanes: int) -> list[Any]:
    """Return vectors of ``lanes`` lanes: quad ``q`` of result ``i`` is column ``q * size + i``.

    ``rows``, ``size`` of them, are vectors of that many lanes, and a quad of 128 bits has ``size``.
    Squares that lie side by side turn together, and no shuffle leaves its quad. Row ``i`` and row
    ``i + half`` lane by lane, the low halves of squares, then the high ones, are rows ``2 i`` and
    ``2 i + 1`` of the next round: each round moves one bit of the row to the lane.
    """
    size, half = len(rows), len(rows) // 2
    orders = [
        [
            first + begin + at + which
            for first in range(0, lanes, size)
            for at in range(half)
            for which in (0, lanes)
        ]
        for begin in (0, half)
    ]
    turned = [T.bind(row) for row in rows]
    for _ in range(size.bit_length() - 1):
        pairs = zip(turned[:half], turned[half:], strict=True)
        turned = [_shuffle(a, b, order) for a, b in pairs for order in orders]
    return turned


def turn(tiles: Any, blocks: int, lanes: Any, turned: Any) -> None:
    """Emit the block ``turn``: ``lanes`` (features, rows) are ``turned`` (rows, features).

    Both are whole squares: ``tiles`` of 16 rows, ``blocks`` of 16 features.
    """
    with T.grid(*int64((tiles, blocks))) as axes, T.sblock("turn"):
        tile, block = T.axis.remap("SS", axes)
        n, feature = tile * LANES, block * LANES
        T.reads(lanes[feature : feature + LANES, n : n + LANES])
        T.writes(turned[n : n + LANES, feature : feature + LANES])
        vectors = [lanes[feature + i, tirx.Ramp(n, 1, LANES)] for i in range(LANES)]
        for i, vector in enumerate(transpose_tile(vectors)):
            T.buffer_store(turned, vector, [n + i, tirx.Ramp(feature, 1, LANES)])


def interleaved(vectors: list[Any], count: int | None = None) -> Any:
    """Return the first lanes of ``count`` columns side by side, then the second ones, and so on.

    ``vectors`` hold them one after the other; by default each is a column.
    """
    count = count or len(vectors)
    size = len(vectors) * int(vectors[0].ty.dtype.lanes) // count
    places = [lane + size * i for lane in range(size) for i in range(count)]
    return tirx.Shuffle(vectors, [tirx.const(place, "int32") for place in places])


def _turn_quads(rows: list[Any]) -> list[Any]:
    """Transpose four rows within each quad: quad ``q`` of result ``c`` is their column 4q + c."""
    a, b, c, d = rows
    low, low_next = _shuffle(a, b, LOW), _shuffle(c, d, LOW)
    high, high_next = _shuffle(a, b, HIGH), _shuffle(c, d, HIGH)
    return [
        _shuffle(low, low_next, LOW_PAIRS),
        _shuffle(low, low_next, HIGH_PAIRS),
        _shuffle(high, high_next, LOW_PAIRS),
        _shuffle(high, high_next, HIGH_PAIRS),
    ]


def _shuffle(a: Any, b: Any, lanes: list[int]) -> Any:
    return T.bind(tirx.Shuffle([a, b], [tirx.const(lane, "int32") for lane in lanes]))
