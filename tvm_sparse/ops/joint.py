"""Joint-sparse linear layer and convolution: only what banks hold, and a lookup for each value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.engine.cpu import Engine
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.entries import Entries
from tvm_sparse.ops.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.marks import int64


def joint(
    contraction: Contraction, storage: CompressedBanksFormat, target: Target
) -> tirx.PrimFunc:
    """Return ``f(X, values, indices, columns, starts, Y)``.

    ``Y[..., r*L + i] = sum_ek values[e, k, i] * X[..., columns[e] + index(e, k, i)]`` over the
    entries ``e`` of lane block ``r``, each of them a bank or a part of one: the balanced operator's
    step behind the block operator's table. No bank crosses a tap. (Joint sparsity: Guo et al.,
    section III.)
    """
    return loop_nest(contraction, JointWeights(storage), target)


@dataclass
class JointWeights:
    """Slot after slot of kept bank after kept bank."""

    storage: CompressedBanksFormat
    operator: str = "joint"
    _values: Any = field(init=False, default=None)
    _indices: Any = field(init=False, default=None)
    _entries: Any = field(init=False, default=None)

    @property
    def lanes(self) -> int:
        """Rows of the weight matrix in a vector."""
        return self.storage.outer.group

    @property
    def extents(self) -> tuple[int, int]:
        """Lane blocks, of one vector each."""
        return self.storage.outer.slots, 1

    @property
    def steps(self) -> tuple[int, ...]:
        """Entries, and the slots of each."""
        return self.storage.longest, self.storage.slots

    def declare(self, engine: Engine) -> None:
        """Emit the parameters ``values``, ``indices``, ``columns`` and ``starts``."""
        s = self.storage
        wide = self.lanes * s.depth
        self._values = T.arg("V", T.Buffer(int64((s.entries, s.slots, wide)), engine.held))
        words = int64((s.entries, s.words, wide))
        self._indices = T.arg("I", T.Buffer(words, str(s.index_dtype)))
        self._entries = Entries.declare((s.entries,), str(s.outer.column_dtype), s.outer.slots)

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return one slot of one bank, and its lookup."""
        s, (step, k), wide = self.storage, at.steps, self.lanes * self.storage.depth
        lanes = tirx.Ramp(0, 1, wide)
        entry = self._entries.entry(at.block, step)
        row, start = self._entries.place(c, at.lead, entry)
        start += c.group_start(at.block * self.lanes)
        index = self._indices[entry, k // s.slots_per_word, lanes]
        word = str(s.index_dtype) if s.depth > 1 else "int32"
        if word != str(s.index_dtype):
            index = tirx.Cast(f"{word}x{wide}", index)
        if s.slots_per_word > 1:
            amount = tirx.Cast(word, k % s.slots_per_word * s.index_bits)
            index = tirx.shift_right(index, tirx.Broadcast(amount, wide))
        return Step(
            reads=[
                whole(x),
                self._values[entry, k, 0:wide],
                self._indices[entry, k // s.slots_per_word, 0:wide],
                *self._entries.reads(at.block, entry),
            ],
            vector=at.block,
            weights=engine.weights(self._values[entry, k, lanes]),
            activations=engine.lookup(x, row, start, index, s.bank),
            exists=self._entries.exists(at.block, step),
        )
