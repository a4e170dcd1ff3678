"""Depthwise convolution with pruned taps: lanes of channels share what any of them keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.entries import Entries
from tvm_sparse.ops.contractions.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.emit import unravel, whole
from tvm_sparse.ops.marks import int64


def depthwise_taps(
    contraction: Contraction, format: CompressedRowsFormat, target: Target
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``.

    ``Y[b, y, x, g*L + i] = sum_e values[e, 0, i] * X[b, y*s + ty, x*s + tx, g*L + i]`` over the
    entries ``e`` of channel group ``g``, with ``L`` lanes and ``(ty, tx)`` the tap
    ``columns[e]``. Format: rows are channels, columns are taps; a row tile is one group of lanes
    and divides the channels. (Pruned taps: Park et al., DEPrune, NeurIPS 2024.)
    """
    return loop_nest(contraction, TapWeights(format), target)


@dataclass
class TapWeights:
    """Kept tap after kept tap of one group of channels."""

    format: CompressedRowsFormat
    operator: str = "depthwise_taps"
    _values: Any = field(init=False, default=None)
    _entries: Any = field(init=False, default=None)

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return self.format.group

    @property
    def extents(self) -> tuple[int, int]:
        """Groups of channels, of one vector each."""
        return self.format.slots, 1

    @property
    def steps(self) -> tuple[int, ...]:
        """Entries, of one tap each."""
        return self.format.longest, 1

    def declare(self, engine: Engine) -> None:
        """Emit the parameters ``values``, ``columns`` (taps) and ``starts``."""
        s = self.format
        self._values = T.arg("V", T.Buffer(int64((s.entries, 1, s.group)), engine.held))
        self._entries = Entries.declare((s.entries,), str(s.column_dtype), s.slots, "T")

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return one tap, and the channels' own pixels there."""
        step, lanes = at.steps[0], self.lanes
        entry = self._entries.entry(at.block, step)
        tap = unravel(tirx.Cast("int64", self._entries.columns[entry]), c.taps)
        channels = tirx.Ramp(at.block * lanes, 1, lanes)
        return Step(
            reads=[
                whole(x),
                self._values[entry, 0, 0:lanes],
                *self._entries.reads(at.block, entry),
            ],
            vector=at.block,
            weights=engine.weights(self._values[entry, 0, tirx.Ramp(0, 1, lanes)]),
            activations=engine.view(x)[(*c.input_index(at.lead, tap), channels)],
            exists=self._entries.exists(at.block, step),
        )
