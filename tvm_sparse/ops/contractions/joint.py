"""Joint-sparse linear layer and convolution: only what banks hold, and a lookup for each value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.entries import Entries
from tvm_sparse.ops.contractions.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import int64


def joint(contraction: Contraction, format: CompressedBanksFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, indices, columns, starts, Y)``.

    ``Y[..., r*L + i] = sum_ek values[e, k, i] * X[..., columns[e] + index(e, k, i)]`` over the
    entries ``e`` of lane block ``r``, each of them a bank or a part of one: the balanced operator's
    step behind the block operator's table. (Joint sparsity: Guo et al., section III.)

    Raises
    ------
    UnsupportedError
        A bank may cross a tap, whose neighbours lie elsewhere.
    """
    if contraction.columns % format.span:
        raise UnsupportedError(
            "joint",
            f"banks within {format.span} columns, taps of {contraction.columns}",
            "banks that cross no tap",
            "give CompressedBanksFormat.of the columns of a tap as span",
        )
    return loop_nest(contraction, JointWeights(contraction, format), target)


FEW_ROWS, TOGETHER = 4, 6
"""With fewer rows, a sum waits for the one before: so many products are added up beside it."""


@dataclass
class JointWeights:
    """Slot after slot of kept bank after kept bank."""

    contraction: Contraction
    format: CompressedBanksFormat
    operator: str = "joint"
    _values: Any = field(init=False, default=None)
    _indices: Any = field(init=False, default=None)
    _entries: Any = field(init=False, default=None)

    @property
    def lanes(self) -> int:
        """Rows of the weight matrix in a vector."""
        return self.format.lanes

    @property
    def extents(self) -> tuple[int, int]:
        """Lane blocks, of one vector each."""
        return self.format.blocks, 1

    @property
    def together(self) -> int:
        """Slots of a step."""
        if self.contraction.rows >= FEW_ROWS:
            return 1
        return max(n for n in range(1, TOGETHER + 1) if self.format.slots % n == 0)

    @property
    def steps(self) -> tuple[int, ...]:
        """Entries, and the groups of slots of each."""
        return self.format.longest, self.format.slots // self.together

    def declare(self, engine: Engine) -> None:
        """Emit the parameters ``values``, ``indices``, ``columns`` and ``starts``."""
        s = self.format
        wide = self.lanes * s.depth
        self._values = T.arg("V", T.Buffer(int64((s.entries, s.slots, wide)), engine.held))
        words = int64((s.entries, s.words, wide))
        self._indices = T.arg("I", T.Buffer(words, str(s.index_dtype)))
        self._entries = Entries.declare((s.entries,), str(s.column_dtype), s.blocks)

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return some slots of one bank, and their lookups."""
        s, (step, group), wide = self.format, at.steps, self.lanes * self.format.depth
        entry, count = self._entries.entry(at.block, step), self.together
        row, start = self._entries.place(c, at.lead, entry)
        start += c.group_start(at.block * self.lanes)
        slots = [group * count + i for i in range(count)]
        (weights, activations), *further = (
            (
                engine.weights(self._values[entry, k, tirx.Ramp(0, 1, wide)]),
                engine.lookup(x, row, start, self._index(entry, k), s.bank),
            )
            for k in slots
        )
        last = (slots[-1] // s.slots_per_word) + 1
        return Step(
            reads=[
                whole(x),
                self._values[entry, slots[0] : slots[-1] + 1, 0:wide],
                self._indices[entry, slots[0] // s.slots_per_word : last, 0:wide],
                *self._entries.reads(at.block, entry),
            ],
            vector=at.block,
            weights=weights,
            activations=activations,
            exists=self._entries.exists(at.block, step),
            further=further,
        )

    def _index(self, entry: Any, k: Any) -> Any:
        """Return the in-bank columns of slot ``k``, with other bits above them."""
        s, wide = self.format, self.lanes * self.format.depth
        index = self._indices[entry, k // s.slots_per_word, tirx.Ramp(0, 1, wide)]
        word = str(s.index_dtype) if s.depth > 1 else "int32"
        if word != str(s.index_dtype):
            index = tirx.Cast(f"{word}x{wide}", index)
        if s.slots_per_word > 1:
            amount = tirx.Cast(word, k % s.slots_per_word * s.index_bits)
            index = tirx.shift_right(index, tirx.Broadcast(amount, wide))
        return index
