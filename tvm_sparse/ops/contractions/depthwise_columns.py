"""Depthwise convolution of bytes: a few taps of a column are multiplied and added up at once.

A lane has one channel of as many rows of the input as an instruction adds up (four bytes), which
cost a shuffle of that many loads. Two neighbouring rows of the output read the same four where
windows are three rows high: for the second one taps are stored one place later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.base.numerics import INTEGERS
from tvm_sparse.formats.tap_columns import TapColumnsFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.loop_nest import At, Step, loop_nest
from tvm_sparse.ops.emit import whole
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.transpose import interleaved

COLUMNS, ROWS_TOGETHER = "depthwise_columns", "depthwise_rows"
"""Marks of the operator; of the second, :data:`SHARED` rows of output are computed together."""

SHARED = 2
"""Rows of the output that read the same words of input."""


def depthwise_columns(
    contraction: Contraction, format: TapColumnsFormat, target: Target
) -> tirx.PrimFunc:
    """Return ``f(X, values, Z, Y)``, with ``format`` as :func:`tap_columns_format` gives it.

    ``Y[b, y, x, c] = Z[c] + sum_t X[b, y*s + ty, x*s + tx, c] * W[t, c]``.
    """
    engine = engine_of(contraction.numerics, target)
    return loop_nest(contraction, _Columns(contraction, format, engine), target)


def tap_columns_format(contraction: Contraction, target: Target) -> TapColumnsFormat | None:
    """Return how the operator stores taps; ``None`` if it does not fit ``contraction``.

    It takes windows of two axes, whole vectors of channels, and bytes that the machine multiplies
    and adds up in one instruction: with more, a tap at a time is as fast.
    """
    c = contraction
    if c.numerics not in INTEGERS or not c.depthwise or len(c.taps) != 2:
        return None
    engine = engine_of(c.numerics, target)
    if not machine_of(target).fused or c.features % engine.lanes:
        return None
    rows = c.lead[1]
    pairs = isinstance(rows, int) and rows % SHARED == 0
    pairs = pairs and (c.strides[0], c.dilation[0]) == (1, 1)
    high, wide = c.taps
    return TapColumnsFormat(c.features, (high, wide), engine.depth, SHARED if pairs else 1)


@dataclass
class _Columns:
    """Word after word of taps of one vector of channels."""

    contraction: Contraction
    format: TapColumnsFormat
    engine: Engine
    _values: Any = field(init=False, default=None)

    @property
    def operator(self) -> str:
        """The operator's mark."""
        return ROWS_TOGETHER if self.format.shared > 1 else COLUMNS

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return self.engine.lanes

    @property
    def extents(self) -> tuple[int, int]:
        """Vectors of channels, each a block of its own."""
        return self.format.channels // self.lanes, 1

    @property
    def steps(self) -> tuple[int, ...]:
        """Words of a column, and columns."""
        return self.format.words, self.format.taps[1]

    def declare(self, engine: Engine) -> None:
        """Emit the parameter ``values``."""
        s = self.format
        shape = s.shared * s.words * s.taps[1], s.channels * s.depth
        self._values = T.arg("V", T.Buffer(int64(shape), engine.held))

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return a word of taps, and what they meet in as many rows of the input."""
        s, (word, column) = self.format, at.steps
        batch, row, pixel = at.lead
        own = row % s.shared
        place = (own * s.words + word) * s.taps[1] + column
        first = at.block * self.lanes
        lanes, pixels = self.lanes * s.depth, engine.view(x)
        channels = tirx.Ramp(first, 1, self.lanes)
        taps = [word * s.depth + i for i in range(s.depth)]
        places = [self._row(batch, row - own, pixel, tap, column) for tap in taps]
        return Step(
            reads=[whole(x), self._values[place, first * s.depth : first * s.depth + lanes]],
            vector=at.block,
            weights=engine.weights(self._values[place, tirx.Ramp(first * s.depth, 1, lanes)]),
            activations=interleaved([pixels[(*index, channels)] for index in places]),
        )

    def _row(self, batch: Any, row: Any, pixel: Any, tap: Any, column: Any) -> tuple[Any, ...]:
        """Return where a tap is met; behind the input's last row, where taps are zero, that row."""
        c, s = self.contraction, self.format
        index = c.input_index([batch, row, pixel], [tap, column])
        highest = (c.lead[1] - s.shared) * c.strides[0]
        highest = highest + (s.words * s.depth - 1) * c.dilation[0]
        last = c.padded[0] - 1
        if isinstance(highest, int) and isinstance(last, int) and highest <= last:
            return index
        return index[0], tirx.min(index[1], last), index[2]
