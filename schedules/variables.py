"""Variables of expressions: whether one depends on them, and other values for them."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx


def uses(expr: Any, var: Any) -> bool:
    """Whether ``expr`` depends on ``var``."""
    return any(v.same_as(var) for v in tirx.analysis.undefined_vars(expr))


def placed(expr: Any, values: dict[Any, Any]) -> Any:
    """Return ``expr`` with other values for variables; numbers take a variable's type."""

    def place(var: Any) -> Any:
        value = values.get(var, var)
        return tirx.const(value, str(var.ty.dtype)) if isinstance(value, int) else value

    return tvm_ffi.structural_map(expr, (tirx.Var, place))
