"""Balanced-sparse linear layer and convolution: lanes of output rows look up a bank of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.emit import first_column
from tvm_sparse.ops.marks import flat, int64


def balanced(contraction: Contraction, format: BalancedFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, indices, Y)``.

    With ``depth`` columns a lane, a step is as many lookups and products, all in one vector.

    ``Y[..., o] = sum_gk values[o // L, g, k, o % L] * X[..., start(g) + index(o, g, k)]``, with
    ``L`` lanes: a reduction step is one lookup in a bank of activations and one multiply-add, both
    on a whole vector. Shapes: ``X``, ``Y`` as the contraction says, the others as
    ``BalancedFormat.encode`` gives. (Balanced sparsity: Yao et al., AAAI 2019, section 3.)
    """
    return loop_nest(contraction, BalancedWeights(contraction, format), target, numbered=True)


@dataclass
class BalancedWeights:
    """Slot after slot of bank after bank; members of a block have common indices."""

    contraction: Contraction
    format: BalancedFormat
    operator: str = "balanced"
    _values: Any = field(init=False, default=None)
    _indices: Any = field(init=False, default=None)

    @property
    def lanes(self) -> int:
        """Rows of the weight matrix in a vector."""
        return self.format.lanes

    @property
    def extents(self) -> tuple[int, int]:
        """Blocks with common indices, and their vectors."""
        s = self.format
        return s.row_blocks // s.share, s.share

    @property
    def steps(self) -> tuple[int, ...]:
        """Taps, banks of a tap, slots of a bank."""
        return (*self.contraction.taps, self.format.segment_banks, self.format.slots)

    def declare(self, engine: Engine) -> None:
        """Emit the parameters ``values`` and ``indices``."""
        s = self.format
        wide = s.lanes * s.depth
        shape = int64((s.row_blocks, s.banks, s.slots, wide))
        self._values = T.arg("V", T.Buffer(shape, engine.held))
        words = int64((self.extents[0], s.words, wide))
        self._indices = T.arg("I", T.Buffer(words, str(s.index_dtype)))

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return one slot of one bank, and its lookup."""
        s, wide = self.format, self.format.lanes * self.format.depth
        lanes = tirx.Ramp(0, 1, wide)
        *taps, bank, slot = at.steps
        vector = at.block * s.share + at.member
        row, start = c.input_index(at.lead, taps), first_column(bank, s.bank, s.segment_cols)
        start += c.group_start(vector * s.lanes)
        position = flat(taps, c.taps) * s.segment_banks + bank
        word, shift = _index_slot(s, position, bank, slot)
        index = self._indices[at.block, word, lanes]
        if s.slots_per_word > 1:
            amount = tirx.Cast(str(s.index_dtype), shift)
            index = tirx.shift_right(index, tirx.Broadcast(amount, wide))
        if s.parts > 1:
            index = _in_bank(s, index, slot)
        return Step(
            reads=[
                x[(*row, slice(start, start + s.bank))],
                self._values[vector, position, slot, 0:wide],
                self._indices[at.block, word, 0:wide],
            ],
            vector=vector,
            weights=engine.weights(self._values[vector, position, slot, lanes]),
            activations=engine.lookup(x, row, start, index, s.bank),
        )


def _in_bank(s: BalancedFormat, index: Any, slot: Any) -> Any:
    """Return in-bank indices of a slot, given those in parts with other bits above them."""
    dtype, wide = str(s.index_dtype), s.lanes * s.depth

    def every(value: Any) -> Any:
        return tirx.Broadcast(tirx.Cast(dtype, value), wide)

    size = s.bank // s.parts
    depth = tirx.bitwise_and(tirx.Ramp(tirx.const(0, dtype), 1, wide), every(s.depth - 1))
    part = tirx.floordiv(every(slot * s.depth) + depth, every(s.keep // s.parts))
    return tirx.bitwise_or(tirx.bitwise_and(index, every(size - 1)), part * every(size))


def _index_slot(s: BalancedFormat, position: Any, bank: Any, slot: Any) -> tuple[Any, Any]:
    """Word that holds a slot's index, and the shift of the index inside it."""
    if s.words_per_bank > 1:
        word = position * s.words_per_bank + slot // s.slots_per_word
        return word, slot % s.slots_per_word * s.index_bits
    inner = bank % s.banks_per_word * s.slots + slot
    return position // s.banks_per_word, inner * s.index_bits
