"""What operator definitions share: the marks that schedule rules look for, and index helpers."""

from __future__ import annotations

from typing import Any

from tvm import tirx

OPERATOR = "ts.kind"
"""Block annotation: ``"dense"``, ``"balanced"``, ``"depthwise"``, … survives operator fusion.

Its key is part of what tuning records are found by, so it keeps its first name."""

ROWS = "ts.rows"
"""Block annotation: position of the axis of rows that a register tile should span."""

GROUP = "ts.group"
"""Block annotation: so many vectors of features read the same columns, the next ones others."""

TILE = "ts.tile"
"""Block annotation of GPU operators: rows, features and columns that a thread block works on."""

VECTOR = "ts.vector"
"""Block annotation of GPU copies: neighbours that lie side by side in the source, and aligned."""

BORDERED = "ts.bordered"
"""Function attribute: the name of the function that this one is, but for borders around its output.
"""

PADDING = "ts.padding"
"""Function attribute: the function does nothing but put borders around its input, channels last:
before all spatial axes, then behind them, and last what they are filled with, like
``[top, left, bottom, right, value]``."""

INDEPENDENT = "ts.independent"
"""Loop annotation: the turns of a serial loop, too few for several cores, may run at once."""

TABLE = "ts.table"
"""Function attribute: the function looks up each byte of its first argument in its second."""

STEP = "ts.step"
"""Block annotation: the block's body is a function's, which rules schedule as if it were alone. Its
parameters are what the block reads and writes."""

WHOLE = "ts.whole"
"""Block annotation: the block writes all of its result, the index of which are its axes. Where
extents are computed, those of the result stand in the function."""

LIBRARY = "ts.library"
"""Block annotation: by which ``function`` of the runtime a library may compute what the block
stores. There are its ``numbers``, the axes of the input's ``planes``, and the ``least`` rows from
which it is asked; the features and columns of ``tiles``, if it wants packed weights in another
form. Function attribute: how (``PlanLibraryCalls``)."""

LOOKED_UP = "ts.looked_up"
"""Function attribute: the function looks up each byte of its first argument in its second, and TVM
may fuse it as if it were element-wise."""

VIEW = "ts.view"
"""Function attribute: the function moves no element: its result is a view of its argument."""

ANY_ORDER = "ts.any_order"
"""Function attribute: what the function does to its operand, it does in any order of the axes."""

FUSION = "op_pattern"
"""Function attribute of Relax: what may be fused with the function, one of the numbers below."""

ELEMENT_WISE = 0
"""Relax's ``kElemWise``: may be fused behind what makes its operand."""

INJECTIVE = 2
"""Relax's ``kInjective``: element-wise functions may be fused around the function, sums may not."""

REDUCTION = 3
"""Relax's ``kCommReduce``: element-wise producers may be fused before the function."""

OUT_FUSABLE = 4
"""Relax's ``kOutEWiseFusable``: element-wise consumers may be fused behind the function."""

OPAQUE = 8
"""Relax's ``kOpaque``: nothing is fused with the function."""


def group_mark(features: int, groups: int, lanes: int) -> dict[str, int]:
    """Return the annotation :data:`GROUP` of a contraction with several groups."""
    return {GROUP: features // groups // lanes} if groups > 1 else {}


def row_axis(lead: tuple[object, ...]) -> int:
    """Return the last static leading axis longer than one, or the last open one, or the last."""
    static = [axis for axis, extent in enumerate(lead) if isinstance(extent, int) and extent > 1]
    open_ones = [axis for axis, extent in enumerate(lead) if not isinstance(extent, int)]
    return (static or open_ones or [len(lead) - 1])[-1]


def int64(extents: tuple[Any, ...]) -> list[Any]:
    """Return extents as int64 constants: operator fusion wants that of every buffer."""
    return [tirx.const(e, "int64") if isinstance(e, int) else e for e in extents]


def flat(index: list[Any], extents: tuple[int, ...]) -> Any:
    """Return the row-major position of ``index`` in ``extents``."""
    position: Any = 0
    for i, extent in zip(index, extents, strict=True):
        position = position * extent + i
    return position
