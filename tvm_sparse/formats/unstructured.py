"""Storage of unstructured matrices: rows sorted by length, padded, with column indices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, index_dtype, itemsize
from tvm_sparse.formats.buckets import Buckets, fill
from tvm_sparse.native import as_unsigned, bit_masks, library
from tvm_sparse.numerics import FLOAT32
from tvm_sparse.patterns.unstructured import Unstructured

WHERE = "unstructured format"


@dataclass(frozen=True)
class UnstructuredFormat:
    """Every row stores its nonzeros and their columns; ``lanes`` rows lie side by side.

    Rows are sorted by their number of nonzeros and taken ``lanes`` at a time; a group stores as
    many entries as its longest row needs, and groups of a bucket store equally many. ``lanes=1``
    is for kernels whose lanes run along the batch.

    Arrays of :meth:`encode`:

    * ``values`` ``(buckets.slots, lanes)``, the matrix's dtype; unused slots are zero.
    * ``columns`` ``(buckets.slots, lanes)``, the smallest of uint8, uint16 and int32 that holds a
      column; unused slots repeat the last column of their row.
    * ``order`` ``(groups * lanes,)`` int32: row of the matrix at each place of storage; places
      without a row name rows from ``rows`` on.
    """

    rows: int
    cols: int
    lanes: int
    buckets: Buckets

    def __post_init__(self) -> None:
        """Refuse extents that cannot be stored."""
        if self.lanes < 1 or self.buckets.groups != self.groups:
            raise UnsupportedError(
                WHERE,
                f"{self.buckets.groups} groups of {self.lanes} rows",
                f"all of {self.rows} rows, once",
            )

    @property
    def groups(self) -> int:
        """Groups of ``lanes`` rows."""
        return -(-self.rows // self.lanes)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        entry = itemsize(dtype) + index_dtype(self.cols).itemsize
        return self.buckets.slots * self.lanes * entry + 4 * self.groups * self.lanes

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        pattern: Unstructured | None = None,
        *,
        lanes: int = 1,
        multiple: int = 4,
        limit: int = 8,
    ) -> UnstructuredFormat:
        """Return the format of ``matrix`` in at most ``limit`` buckets.

        Rows are padded to a ``multiple`` of entries; with ``limit=1`` they keep their order.
        """
        rows, cols = matrix.shape
        longest = _longest(np.count_nonzero(matrix, axis=1), lanes, sort=limit > 1)
        return cls(rows, cols, lanes, fill(longest, limit, multiple))

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if a row is too long."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        counts = np.count_nonzero(matrix, axis=1)
        sort = len(self.buckets.parts) > 1
        rows = np.argsort(-counts, kind="stable") if sort else np.arange(self.rows)
        longest = _longest(counts, self.lanes, sort)
        # Sorted rows make sorted groups, so this only checks that every group fits its place.
        self.buckets.order(longest, WHERE)
        order = np.append(rows, np.arange(self.rows, self.groups * self.lanes)).astype(np.int32)
        shape = (self.buckets.slots, self.lanes)
        values = np.empty(shape, matrix.dtype)
        columns = np.empty(shape, index_dtype(self.cols))
        ends = self.buckets.starts + self.buckets.slots_of
        magnitude, _ = bit_masks(matrix.dtype, WHERE)
        library().pack_rows(
            as_unsigned(matrix), magnitude, order, ends, as_unsigned(values), as_unsigned(columns)
        )
        return {"values": values, "columns": columns, "order": order}

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)``; the exact inverse of :meth:`encode`."""
        values, columns = arrays["values"], arrays["columns"]
        owner = np.repeat(arrays["order"].reshape(-1, self.lanes), self.buckets.slots_of, axis=0)
        matrix = np.zeros((self.rows, self.cols), values.dtype)
        used = values != 0
        matrix[owner[used], columns[used].astype(np.int64)] = values[used]
        return matrix


def _longest(counts: npt.NDArray[np.int64], lanes: int, sort: bool) -> npt.NDArray[np.int64]:
    """Return the entries that each group of ``lanes`` rows needs."""
    ordered = -np.sort(-counts) if sort else counts
    return np.pad(ordered, (0, -len(counts) % lanes)).reshape(-1, lanes).max(1)
