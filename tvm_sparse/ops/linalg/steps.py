"""How many steps it takes to factorise a matrix, whose extents may be open."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.sym import Analyzer


def fewest(rows: Any, columns: Any) -> Any:
    """Return the smaller of two extents: a number, or an expression where one is open."""
    return Analyzer().simplify(tirx.min(rows, columns))
