"""Tables of kept entries: each block of features walks its own, all as long as the longest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import int64


@dataclass(frozen=True)
class Entries:
    """The columns of entries, and where the entries of each block start: two parameters."""

    columns: Any
    starts: Any

    @classmethod
    def declare(cls, shape: tuple[int, ...], dtype: str, blocks: int, name: str = "C") -> Entries:
        """Emit both parameters: the columns, whose first axis counts entries, and the starts."""
        columns = T.arg(name, T.Buffer(int64(shape), dtype))
        return cls(columns, T.arg("S", T.Buffer(int64((blocks + 1,)), "int32")))

    def entry(self, block: Any, step: Any) -> Any:
        """Return the number of an entry of ``block``."""
        return tirx.Cast("int64", self.starts[block]) + step

    def exists(self, block: Any, step: Any) -> Any:
        """Whether ``block`` has that entry."""
        return step < tirx.Cast("int64", self.starts[block + 1] - self.starts[block])

    def reads(self, block: Any, entry: Any) -> list[Any]:
        """Return the regions of an entry."""
        rest = (slice(0, int(extent)) for extent in self.columns.ty.shape[1:])
        return [self.columns[(entry, *rest)], self.starts[block : block + 2]]

    def place(self, c: Contraction, lead: list[Any], entry: Any) -> tuple[tuple[Any, ...], Any]:
        """Return the row of the input that an entry reads, and its first column there."""
        column = tirx.Cast("int64", self.columns[entry])
        row = c.input_index(lead, unravel(column // c.columns, c.taps))
        return row, column % c.columns if c.taps else column
