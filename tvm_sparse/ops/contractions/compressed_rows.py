"""Linear layer and convolution on compressed rows: lanes of output pixels share each weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.engine.registry import single_engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.lane_sums import lane_sums
from tvm_sparse.ops.contractions.packed_rows import PackedRows, ramp


def compressed_rows(
    contraction: Contraction, format: CompressedRowsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts[, groups], Y)``.

    All output rows (pixels) of the contraction are numbered ``n``; 16 of them are the lanes of a
    vector and ``vectors`` vectors are computed together, so each weight is loaded once for
    ``16 * vectors`` multiply-adds. The operands of such a tile are transposed first (``pack``:
    ``(column, n)``, all taps of a convolution one after the other), the results last (``turn``).
    Between them, ``contract`` walks the slots of the format with ``group * vectors`` accumulators
    in registers. (Lanes along the batch: Elsen et al., Fast Sparse ConvNets, CVPR 2020, section 3.)
    """
    engine = single_engine_of(contraction.numerics, target)
    return lane_sums(_Plan(contraction, engine, vectors, format), str(format.column_dtype))


@dataclass(frozen=True)
class _Plan(PackedRows):
    """The rows with the format of the weight that they meet."""

    s: CompressedRowsFormat
    operator: ClassVar[str] = "compressed_rows"

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return all columns of a tile of output rows."""
        return packed[0 : self.packed_rows, first : first + self.span]

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that column ``k`` of an entry meets in row ``n``."""
        return [across * self.s.tile_cols + stored + k, ramp(n)]
