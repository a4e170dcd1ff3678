"""What formats that cut a matrix into tiles share: how many tiles there are."""

from __future__ import annotations

import math


class TileGrid:
    """Tiles of ``lanes`` rows and ``step`` columns that cover a matrix ``(rows, cols)``."""

    rows: int
    cols: int
    lanes: int
    step: int

    @property
    def row_blocks(self) -> int:
        """Tiles down."""
        return math.ceil(self.rows / self.lanes)

    @property
    def steps(self) -> int:
        """Tiles across."""
        return math.ceil(self.cols / self.step)
