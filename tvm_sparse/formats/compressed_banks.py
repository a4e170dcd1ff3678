"""Storage of joint matrices: only banks that hold a nonzero, each with few values a row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat

WHERE = "compressed banks"
INDEX_BITS = 4
SLOTS_PER_WORD = 8


@dataclass(frozen=True)
class CompressedBanksFormat:
    """Blocks of lanes x 16 columns as ``outer`` keeps them, ``keep`` values a row inside.

    Arrays of :meth:`encode`:

    * ``values`` ``(entries, keep, lanes)``, the matrix's dtype; unused slots are zero.
    * ``indices`` ``(entries, words, lanes)`` int32: eight in-bank columns of four bits a word,
      lowest bits first.
    * ``columns``, ``starts``: see :class:`CompressedRowsFormat`; an entry is one bank.
    """

    outer: CompressedRowsFormat
    keep: int

    BANK = 16

    def __post_init__(self) -> None:
        """Refuse blocks that are no banks."""
        if self.outer.run != self.BANK or not 1 <= self.keep <= self.BANK:
            raise UnsupportedError(
                WHERE,
                f"{self.keep} of {self.outer.run} columns",
                f"1 to {self.BANK} of {self.BANK}",
            )

    @property
    def words(self) -> int:
        """Words of indices of an entry."""
        return math.ceil(self.keep / SLOTS_PER_WORD)

    def nbytes(self, dtype: npt.DTypeLike = "float32") -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        o = self.outer
        dense = o.entries * o.group * o.run * np.dtype(dtype).itemsize
        inner = o.entries * o.group * (self.keep * np.dtype(dtype).itemsize + 4 * self.words)
        return o.nbytes(dtype) - dense + inner

    @classmethod
    def of(cls, matrix: np.ndarray, *, lanes: int = 16) -> CompressedBanksFormat:
        """Return the smallest format that holds every nonzero of ``matrix``."""
        outer = cls.kept(matrix, lanes=lanes)
        counts = np.count_nonzero(outer.encode(matrix)["values"], axis=1)
        return cls(outer, max(1, int(counts.max(initial=0))))

    @classmethod
    def kept(cls, matrix: np.ndarray, *, lanes: int = 16) -> CompressedRowsFormat:
        """Return the format of the banks that hold a nonzero, whatever is inside."""
        return CompressedRowsFormat.of(
            matrix, group=lanes, run=cls.BANK, tile_rows=lanes, tile_cols=matrix.shape[1]
        )

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a bank holds too much."""
        arrays = self.outer.encode(matrix)
        blocks = arrays.pop("values")
        most = int(np.count_nonzero(blocks, axis=1).max(initial=0))
        if most > self.keep:
            raise UnsupportedError(
                WHERE,
                f"{most} nonzeros in a row of a bank",
                f"at most {self.keep}",
                "use CompressedBanksFormat.of to size the format",
            )
        order = np.argsort(blocks == 0, axis=1, kind="stable")[:, : self.keep]
        values = np.take_along_axis(blocks, order, axis=1)
        slots = np.zeros((len(blocks), self.words * SLOTS_PER_WORD, blocks.shape[2]), np.uint32)
        slots[:, : self.keep] = order
        shape = (len(blocks), self.words, SLOTS_PER_WORD, blocks.shape[2])
        words = np.bitwise_or.reduce(slots.reshape(shape) << _shifts(), axis=2)
        return {"values": values, "indices": words.view(np.int32), **arrays}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        values, words = arrays["values"], arrays["indices"].view(np.uint32)
        slots = (words[:, :, None] >> _shifts()) & np.uint32(self.BANK - 1)
        order = slots.reshape(len(values), -1, values.shape[2])[:, : self.keep].astype(np.int64)
        blocks = np.zeros((len(values), self.BANK, values.shape[2]), values.dtype)
        np.put_along_axis(blocks, order, values, axis=1)
        return self.outer.decode({**arrays, "values": blocks})


def _shifts() -> np.ndarray:
    """Return the position of each slot of a word, along the slots' axis."""
    return (INDEX_BITS * np.arange(SLOTS_PER_WORD)).astype(np.uint32)[:, None]
