"""Block-sparse linear layer and convolution: lanes of output rows share a block's columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.entries import Entries
from tvm_sparse.ops.contractions.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import int64


def block(contraction: Contraction, format: CompressedRowsFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``.

    ``Y[..., r*R + i] = sum_ek values[e, k, i] * X[..., columns[e] + k]`` over the entries ``e`` of
    block row ``r``, whose ``R`` rows are whole vectors: a step multiplies a vector of one column of
    a block by one activation. Format: row tiles of one group, one column tile; no run crosses a
    tap. (Block compressed sparse rows, as in cuSPARSE's and MKL's BSR.)
    """
    return loop_nest(contraction, BlockWeights(format), target)


@dataclass
class BlockWeights:
    """Column after column of kept block after kept block."""

    format: CompressedRowsFormat
    operator: str = "block"
    lanes: int = LANES
    _values: Any = field(init=False, default=None)
    _entries: Any = field(init=False, default=None)

    @property
    def extents(self) -> tuple[int, int]:
        """Block rows, and their vectors."""
        return self.format.slots, self.format.group // self.lanes

    @property
    def steps(self) -> tuple[int, ...]:
        """Entries, and the columns of each."""
        return self.format.longest, self.format.run // self.format.depth

    def declare(self, engine: Engine) -> None:
        """Emit the parameters ``values``, ``columns`` and ``starts``."""
        s = self.format
        shape = int64((s.entries, s.run // s.depth, s.group * s.depth))
        self._values = T.arg("V", T.Buffer(shape, engine.held))
        self._entries = Entries.declare((s.entries,), str(s.column_dtype), s.slots)

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return one column of one block, and its activation for all lanes."""
        (step, k), depth = at.steps, self.format.depth
        first, wide = at.member * self.lanes * depth, self.lanes * depth
        entry = self._entries.entry(at.block, step)
        vector = at.block * self.extents[1] + at.member
        row, column = self._entries.place(c, at.lead, entry)
        column += c.group_start(vector * self.lanes)
        return Step(
            reads=[
                whole(x),
                self._values[entry, k, first : first + wide],
                *self._entries.reads(at.block, entry),
            ],
            vector=vector,
            weights=engine.weights(self._values[entry, k, tirx.Ramp(first, 1, wide)]),
            activations=engine.broadcast(x, row, column + k * depth, self.lanes),
            exists=self._entries.exists(at.block, step),
        )
