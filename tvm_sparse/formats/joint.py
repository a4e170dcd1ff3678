"""Storage of joint matrices: an outer index of kept blocks and balanced rows inside them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.numerics import FLOAT32
from tvm_sparse.patterns.joint import Joint


@dataclass(frozen=True)
class NestedFormat:
    """The kept blocks of each bucket moved together, and balanced storage of what they make.

    Block row i of a bucket becomes ``block_rows`` rows of ``slots * block_cols`` columns.

    Arrays of :meth:`encode`: ``columns`` and ``order`` of ``outer`` (see :class:`BlockFormat`), and
    ``values_<b>`` and ``indices_<b>`` of ``inner[b]`` (see :class:`BalancedFormat`), a format for
    each bucket.
    """

    outer: BlockFormat
    inner: tuple[BalancedFormat, ...]

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        index = 4 * (self.outer.buckets.slots + self.outer.down)
        return index + sum(part.nbytes(dtype) for part in self.inner)

    @classmethod
    def of(cls, matrix: np.ndarray, pattern: Joint, *, limit: int = 8) -> NestedFormat:
        """Return the format of ``matrix``: banks of ``pattern`` if they lie inside blocks.

        Blocks cut larger banks into parts of different counts; then a bank is a whole row of what
        the kept blocks make, padded to the longest row.
        """
        outer = BlockFormat.of(matrix, pattern.block, limit=limit)
        parts = _compact(outer, outer.encode(matrix)["values"])
        inside = outer.block_cols % pattern.bank.bank == 0
        banks = [pattern.bank.bank if inside else part.shape[1] for part in parts]
        inner = [
            BalancedFormat.of(part, bank=bank) for part, bank in zip(parts, banks, strict=True)
        ]
        return cls(outer, tuple(inner))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it keeps too much."""
        blocks = self.outer.encode(matrix)
        arrays = {"columns": blocks["columns"], "order": blocks["order"]}
        for i, part in enumerate(_compact(self.outer, blocks["values"])):
            for name, array in self.inner[i].encode(part).items():
                arrays[f"{name}_{i}"] = array
        return arrays

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        names = ("values", "indices")
        parts = [
            inner.decode({name: arrays[f"{name}_{i}"] for name in names})
            for i, inner in enumerate(self.inner)
        ]
        blocks = {"columns": arrays["columns"], "order": arrays["order"]}
        return self.outer.decode({"values": _scatter(self.outer, parts), **blocks})


@dataclass(frozen=True)
class JointFormat:
    """The storage that takes the fewest bytes for a joint mask.

    ``storage`` is a :class:`BlockFormat` (kept blocks dense), a :class:`NestedFormat` (balanced
    rows inside kept blocks) or a :class:`BalancedFormat` (the blocks ignored); arrays are its.
    """

    storage: BlockFormat | NestedFormat | BalancedFormat

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        return self.storage.nbytes(dtype)

    @classmethod
    def of(cls, matrix: np.ndarray, pattern: Joint, *, limit: int = 8) -> JointFormat:
        """Return the smallest of the three storages of ``matrix``."""
        storages: list[BlockFormat | NestedFormat | BalancedFormat] = [
            BlockFormat.of(matrix, pattern.block, limit=limit),
            NestedFormat.of(matrix, pattern, limit=limit),
        ]
        if pattern.bank.bank <= matrix.shape[1]:
            storages.append(BalancedFormat.of(matrix, bank=pattern.bank.bank))
        return cls(min(storages, key=lambda storage: storage.nbytes(matrix.dtype)))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it keeps too much."""
        return self.storage.encode(matrix)

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        return self.storage.decode(arrays)


def _compact(outer: BlockFormat, values: np.ndarray) -> list[np.ndarray]:
    """Return the kept blocks of each bucket side by side: ``(groups * R, slots * S)``."""
    parts, start = [], 0
    for part in outer.buckets.parts:
        stop = start + part.groups * part.slots
        blocks = values[start:stop].reshape(part.groups, part.slots, *values.shape[1:])
        rows = blocks.transpose(0, 3, 1, 2)
        parts.append(rows.reshape(part.groups * outer.block_rows, -1))
        start = stop
    return parts


def _scatter(outer: BlockFormat, parts: list[np.ndarray]) -> np.ndarray:
    """Undo :func:`_compact`."""
    blocks = []
    for part, rows in zip(outer.buckets.parts, parts, strict=True):
        cube = rows.reshape(part.groups, outer.block_rows, part.slots, outer.block_cols)
        blocks.append(cube.transpose(0, 2, 3, 1).reshape(-1, outer.block_cols, outer.block_rows))
    return np.concatenate(blocks)
