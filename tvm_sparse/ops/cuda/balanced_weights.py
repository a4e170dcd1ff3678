"""Right operand of tiled contractions for banks: copied as stored, made dense on chip."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.ops.cuda import ptx
from tvm_sparse.ops.cuda.staging import pointer
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.ops.cuda.weights import DenseTiles, PackedOperand
from tvm_sparse.ops.marks import int64


@dataclass
class BalancedOperand(PackedOperand, DenseTiles):
    """Balanced weights: values and indices are copied, then a dense tile is made of them on chip.

    ``format.lanes`` and ``format.step`` are ``tile.features`` and ``tile.columns``.
    """

    format: TileBanksFormat
    tile: ThreadBlockTile
    _packed: tuple[Any, Any] = field(init=False, default=(None, None))

    @property
    def features_first(self) -> bool:
        """A bank lies in one row of the tile, so that one thread clears and fills it."""
        return True

    @property
    def apart(self) -> int:
        """As rows are stored."""
        return self.format.apart

    @property
    def sizes(self) -> tuple[int, int]:
        """Of all rows of a tile."""
        return self.format.lanes * self.format.slots, self.format.lanes * self.format.words

    def stage(self, ws: tirx.Buffer) -> None:
        """Emit ``stage_v`` and ``stage_i``, plain copies, and ``decode_w``."""
        values, indices = self.stage_packed()
        s, per_step = self.format, self.format.step // self.format.bank
        per_group = s.lanes // s.apart
        grid = int64((self.blocks, s.lanes, self.steps * per_step))
        with T.grid(*grid) as axes, T.sblock("decode_w"):
            block, feature, place = T.axis.remap("SSS", axes)
            step, bank, column = place // per_step, place % per_step, place * s.bank
            slot, word = feature * s.slots, feature * s.words
            read = values[block, step, slot : slot + s.slots]
            packed = indices[block, step, word : word + s.words]
            lanes = (feature // per_group, feature % per_group) if s.apart > 1 else (feature,)
            written = ws[(block, *lanes, slice(column, column + s.bank))]
            T.reads(read, packed)
            T.writes(written)
            # A call, because TVM would put a barrier between clearing a bank and filling it,
            # although one thread does both.
            decoder = ptx.BankDecoder(s.bank, s.keep, s.index_bits, str(ws.dtype))
            call = ptx.decode(
                pointer(written, s.bank, "w"),
                pointer(read, s.slots, "r"),
                pointer(packed, s.words, "r"),
                tirx.Cast("int32", bank),
                decoder,
            )
            # A scope of its own, because TVM gives what one statement writes the place of what it
            # is the last to read, although other threads still read there.
            with T.attr(tirx.const(0), "extern_scope", 1):
                T.evaluate(call)
