"""Kept values of tiles, and the places of shared memory that they are put to before a product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.bank_slots import largest_counts
from tvm_sparse.formats.swizzled_blocks import EDGE, SwizzledBlocksFormat
from tvm_sparse.patterns.scan import Scan

WHERE = "swizzled banks"

THREADS = 2 * EDGE
"""Threads that put the values of a tile to their places: two a row."""

MOST_SLOTS = 16
"""Values of a thread: up to half of a tile."""

ROWS_AT_ONCE, MEMORY_BANKS = 16, 32
"""Rows that a warp's threads store to, and banks of shared memory, of two values each."""

AT_ONCE = 512
"""Tiles that are packed at once."""


@dataclass(frozen=True)
class SwizzledBanksFormat:
    """Tiles of 64 x 64 that hold a nonzero, of each row two times ``slots`` values.

    Any matrix fits whose rows hold no more nonzeros in 64 columns: banks of any size, inside of
    kept tiles or everywhere. Slots without a nonzero store zeros of other columns, so that no two
    of a row have one place. Tiles, columns and starts are as in
    :class:`~tvm_sparse.formats.swizzled_blocks.SwizzledBlocksFormat`.

    Arrays of :meth:`encode`:

    * ``words`` ``(stored, value_words + place_words, 128)`` int32, a word of each thread side by
      side. Threads ``2 r`` and ``2 r + 1`` have row ``r``. Slots come in pairs of values of 16
      bits, then in fours of places, lowest first. A place is a byte: how many bytes behind the
      row's begin its value lies, the column's piece of 16 bytes permuted.
    * ``columns`` ``(stored,)`` and ``starts`` ``(down + 1,)`` int32.

    Which slot a value has is free. Thread after thread takes one whose bank of shared memory those
    before it use least, so that few threads of a warp store to the same.
    """

    rows: int
    cols: int
    slots: int
    kept: int

    def __post_init__(self) -> None:
        """Refuse tiles that are denser than words of places are for."""
        if not 1 <= self.slots <= MOST_SLOTS:
            raise UnsupportedError(WHERE, f"{self.slots} slots of a thread", f"1 to {MOST_SLOTS}")

    @staticmethod
    def slots_of(matrix: np.ndarray) -> int:
        """Return the slots that ``matrix`` ``(rows, cols)`` needs, more than fit or not."""
        return -(-largest_counts(matrix, [EDGE])[0] // 2)

    @classmethod
    def of(cls, matrix: np.ndarray) -> SwizzledBanksFormat:
        """Return the format of ``matrix``; raise if its rows hold too much."""
        kept = int(np.count_nonzero(Scan(matrix).block_counts(EDGE, EDGE)))
        rows, cols = matrix.shape
        return cls(rows, cols, cls.slots_of(matrix), kept)

    @property
    def tiles(self) -> SwizzledBlocksFormat:
        """The kept tiles as they are multiplied."""
        return SwizzledBlocksFormat(self.rows, self.cols, EDGE, self.kept)

    @property
    def block_rows(self) -> int:
        """Rows of a tile."""
        return EDGE

    @property
    def down(self) -> int:
        """Rows of tiles."""
        return self.tiles.down

    @property
    def value_words(self) -> int:
        """Words of values of a thread."""
        return -(-self.slots // 2)

    @property
    def words(self) -> int:
        """Words of a thread."""
        return self.value_words + -(-self.slots // 4)

    def nbytes(self, dtype: npt.DTypeLike = "float16") -> int:
        """Return the bytes of all arrays for values of ``dtype``, of 16 bits."""
        assert itemsize(dtype) == 2
        return self.tiles.stored * (4 * self.words * THREADS + 4) + 4 * (self.down + 1)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it does not fit."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        if (found := self.slots_of(matrix)) > self.slots:
            raise UnsupportedError(WHERE, f"{found} slots of a thread", f"at most {self.slots}")
        arrays = self.tiles.encode(matrix)
        tiles = arrays.pop("values")
        parts = [self._words(tiles[i : i + AT_ONCE]) for i in range(0, len(tiles), AT_ONCE)]
        return {"words": np.concatenate(parts).view(np.int32), **arrays}

    def decode(self, arrays: dict[str, np.ndarray], dtype: npt.DTypeLike) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``dtype``; the inverse of :meth:`encode`."""
        words = arrays["words"].view(np.uint32)
        values, places = (
            _parted(part, bits)[:, :, : self.slots].reshape(len(words), EDGE, -1)
            for part, bits in zip(np.split(words, [self.value_words], axis=1), (16, 8), strict=True)
        )
        tiles = np.zeros((len(words), EDGE, EDGE), np.uint16)
        np.put_along_axis(tiles, places.astype(np.int64) // 2, values.astype(np.uint16), 2)
        tables = {name: arrays[name] for name in ("columns", "starts")}
        return self.tiles.decode({"values": tiles.view(dtype), **tables})

    def _words(self, tiles: np.ndarray) -> npt.NDArray[np.uint32]:
        """Return the words of ``tiles`` ``(count, 64, 64)``, whose pieces are permuted."""
        nonzeros_first = np.argsort(tiles == 0, axis=2, kind="stable")
        places = _apart(nonzeros_first[:, :, : 2 * self.slots])
        bits = np.take_along_axis(tiles, places, 2).view(np.uint16)
        return np.concatenate([_joined(bits, 16), _joined(2 * places, 8)], 1)


def _joined(slots: np.ndarray, bits: int) -> npt.NDArray[np.uint32]:
    """Return ``(count, 64, 2 * slots)``, of each thread one after another, as words."""
    count, per = len(slots), 32 // bits
    threads = slots.reshape(count, THREADS, -1).astype(np.uint32)
    threads = np.pad(threads, [(0, 0), (0, 0), (0, -threads.shape[2] % per)])
    words = threads.reshape(count, THREADS, -1, per) << bits * np.arange(per, dtype=np.uint32)
    return np.ascontiguousarray(np.bitwise_or.reduce(words, axis=3).swapaxes(1, 2))


def _parted(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    """Undo :func:`_joined`, with the slots that fill up the last word."""
    shifts = bits * np.arange(32 // bits, dtype=np.uint32)
    slots = words.swapaxes(1, 2)[..., None] >> shifts & np.uint32((1 << bits) - 1)
    return slots.reshape(len(words), THREADS, -1)


def _apart(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``places`` ``(tiles, 64, 2 * slots)`` of rows in an order of far apart banks.

    Greedy, thread by thread: each slot takes the place of its row that is left and whose bank the
    threads before it use least in this slot.
    """
    shape = places.shape
    rows = places.reshape(-1, ROWS_AT_ONCE, 2, shape[2] // 2)
    chosen, warps = np.empty_like(rows), np.arange(len(rows))
    load = np.zeros((rows.shape[3], len(rows), MEMORY_BANKS), np.int32)
    for row in range(ROWS_AT_ONCE):
        left = rows[:, row].reshape(len(rows), -1)
        banks, taken = left // 2, np.zeros(left.shape, np.int32)
        for slot in range(rows.shape[3]):
            for thread in range(2):
                costs = np.take_along_axis(load[slot], banks, 1) + taken
                pick = costs.argmin(1)
                chosen[:, row, thread, slot] = left[warps, pick]
                taken[warps, pick] = 2 * ROWS_AT_ONCE + 1
                load[slot, warps, banks[warps, pick]] += 1
    return chosen.reshape(shape)
