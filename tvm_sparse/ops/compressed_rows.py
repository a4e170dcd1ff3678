"""Linear layer and convolution on compressed rows: lanes of output pixels share each weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.engine.registry import single_engine_of
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops import lane_sums
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.marks import OUT_FUSABLE, int64
from tvm_sparse.ops.packed_rows import PackedRows, ramp


def compressed_rows(
    contraction: Contraction, storage: CompressedRowsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts[, groups], Y)``.

    All output rows (pixels) of the contraction are numbered ``n``; 16 of them are the lanes of a
    vector and ``vectors`` vectors are computed together, so each weight is loaded once for
    ``16 * vectors`` multiply-adds. The operands of such a tile are transposed first (``pack``:
    ``(column, n)``, all taps of a convolution one after the other), the results last (``turn``).
    Between them, ``contract`` walks the slots of the storage with ``group * vectors`` accumulators
    in registers. (Lanes along the batch: Elsen et al., Fast Sparse ConvNets, CVPR 2020, section 3.)
    """
    c = contraction
    plan = _Plan(c, single_engine_of(c.numerics, target), vectors, storage)
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        stored = lane_sums.declare(storage, plan.engine, str(storage.column_dtype))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            packed = plan.alloc(c.dtype)
            plan.pack(x, packed)
            acc = lane_sums.emit(plan, packed, stored)
            plan.store(acc, None, y)
    return builder.get()


@dataclass(frozen=True)
class _Plan(PackedRows):
    """The rows with the storage of the weight that they meet."""

    s: CompressedRowsFormat
    operator: ClassVar[str] = "compressed_rows"

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return all columns of a tile of output rows."""
        return packed[0 : self.packed_rows, first : first + self.span]

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that column ``k`` of an entry meets in row ``n``."""
        return [across * self.s.tile_cols + stored + k, ramp(n)]
