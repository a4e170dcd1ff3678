"""Format of matrices whose rows share columns, where a lane takes several columns at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.arrays import finite_matrix, itemsize
from tvm_sparse.formats.bank_slots import halves, summed
from tvm_sparse.formats.squares import Squares
from tvm_sparse.machine.vector import LANES, SUM_BITS

WHERE = "shared columns"


@dataclass(frozen=True)
class SharedColumnsFormat:
    """Groups of ``group`` rows that share columns anywhere; an entry is ``depth`` of them.

    Runs of columns side by side need no such table: see ``CompressedRowsFormat``. Where a group has
    no multiple of ``depth`` columns, its last entry also names a column in which the group is zero.
    If there is none, it shares the values of its last column.
    The columns are those of ``taps`` taps of a window, one after the other.

    Arrays of :meth:`encode`:

    * ``values`` ``(entries, group * depth)``, the matrix's dtype: the columns of a row lie side by
      side.
    * ``columns`` ``(entries, depth)`` int32, by :meth:`Squares.place`: of narrower ones LLVM would
      make vectors, only to take them apart for addresses.
    * ``starts`` ``(groups + 1,)`` int32: first entry of each group.

    ``longest`` is the number of entries of the longest group. A matrix of zeros stores one entry
    that no group refers to.
    """

    rows: int
    cols: int
    entries: int
    longest: int
    group: int = LANES
    depth: int = 1
    taps: int = 1

    @property
    def squares(self) -> Squares:
        """How the columns of the input lie."""
        return Squares(self.cols // self.taps, SUM_BITS // self.depth)

    @property
    def groups(self) -> int:
        """Groups of rows; the last one may reach past the last row."""
        return -(-self.rows // self.group)

    def nbytes(self, dtype: npt.DTypeLike = FLOAT32.weight) -> int:
        """Return the bytes of all arrays for values of ``dtype``."""
        column = self.group * itemsize(dtype) + 4
        return self.entries * self.depth * column + 4 * (self.groups + 1)

    @classmethod
    def of(
        cls, matrix: np.ndarray, *, group: int = LANES, depth: int = 1, taps: int = 1
    ) -> SharedColumnsFormat:
        """Return the format that stores exactly the columns of ``matrix`` that groups use."""
        rows, cols = matrix.shape
        probe = cls(rows, cols, 1, 1, group, depth, taps)
        counts = probe._counts(probe._used(matrix))
        entries, longest = max(1, int(counts.sum())), max(1, int(counts.max(initial=0)))
        return replace(probe, entries=entries, longest=longest)

    def encode(self, matrix: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays of ``matrix`` ``(rows, cols)``; raise if it uses other columns."""
        matrix = finite_matrix(matrix, (self.rows, self.cols), WHERE)
        used = self._used(matrix)
        counts = self._counts(used)
        total, longest = int(counts.sum()), int(counts.max(initial=0))
        if max(1, total) != self.entries or longest > self.longest:
            raise UnsupportedError(
                WHERE,
                f"{total} entries, at most {longest} of a group",
                f"{self.entries}, at most {self.longest}",
                "use SharedColumnsFormat.of to size the format",
            )
        starts = np.append(0, np.cumsum(counts)).astype(np.int32)
        group, column = np.nonzero(used)
        # They come group by group: the rank of a column is the distance to its group's first one.
        kept = used.sum(-1)
        rank = np.arange(len(group)) - (np.cumsum(kept) - kept)[group]
        place = starts[group] + rank // self.depth, rank % self.depth
        values = np.zeros((self.entries, self.depth, self.group), matrix.dtype)
        columns = np.zeros((self.entries, self.depth), np.int32)
        values[place] = self._grouped(matrix)[group, :, column]
        columns[place] = self.squares.place(column)
        self._fill_entries(used, starts, values, columns)
        wide = np.ascontiguousarray(values.swapaxes(1, 2)).reshape(self.entries, -1)
        return {"values": wide, "columns": columns, "starts": starts}

    def _fill_entries(
        self,
        used: npt.NDArray[np.bool_],
        starts: npt.NDArray[np.int32],
        values: np.ndarray,
        columns: npt.NDArray[np.int32],
    ) -> None:
        """Name columns in the places of the last entries that are left, ``(entries, depth)``."""
        left = -used.sum(-1) % self.depth
        for group in np.flatnonzero(left):
            entry, first = starts[group + 1] - 1, self.depth - left[group]
            zero = np.flatnonzero(~used[group])
            if len(zero):
                columns[entry, first:] = self.squares.place(zero[:1])[0]
                continue
            columns[entry, first:] = columns[entry, first - 1]
            again = np.arange(self.depth) >= first
            halves(values[entry], np.broadcast_to(again[:, None], values[entry].shape))

    def decode(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the matrix ``(rows, cols)`` of ``arrays``; the exact inverse of :meth:`encode`."""
        starts = arrays["starts"]
        group = np.repeat(np.arange(self.groups), np.diff(starts))
        values = arrays["values"].reshape(self.entries, self.group, self.depth)[: len(group)]
        places = self.squares.place(np.arange(self.cols))
        back = np.zeros(places.max() + 1, np.int64)
        back[places] = np.arange(self.cols)
        columns = back[arrays["columns"][: len(group)]]
        # A sum: columns that fill an entry share the values of one of the group's.
        shape = self.groups, self.cols, self.group
        matrix = summed(shape, (group[:, None], columns), values.swapaxes(1, 2))
        return matrix.swapaxes(1, 2).reshape(-1, self.cols)[: self.rows]

    def _used(self, matrix: np.ndarray) -> npt.NDArray[np.bool_]:
        """Return ``(groups, cols)``: the columns in which a row of the group has a nonzero."""
        return np.add.reduceat(matrix != 0, np.arange(0, self.rows, self.group), dtype=np.bool_)

    def _counts(self, used: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """Return the entries of each group."""
        counts: npt.NDArray[np.int64] = -(-used.sum(-1, dtype=np.int64) // self.depth)
        return counts

    def _grouped(self, matrix: np.ndarray) -> np.ndarray:
        """Return ``matrix`` as ``(groups, group, cols)``, missing rows zero."""
        missing = self.groups * self.group - self.rows
        rows = np.pad(matrix, ((0, missing), (0, 0))) if missing else matrix
        return rows.reshape(self.groups, self.group, self.cols)
