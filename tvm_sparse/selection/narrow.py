"""When weights are worth keeping in half precision: few rows of input, and nothing lost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.formats.narrow import KINDS, NarrowFormat, exact
from tvm_sparse.ops.contraction import Contraction

FEW_ROWS = 8
"""Rows of input up to which weights take longer to arrive than to be used."""


def stored_as(contraction: Contraction, matrix: np.ndarray, target: Target) -> str:
    """Return ``"bfloat16"``, ``"float16"`` or ``""``: the type to store the weight in, if any.

    Half precision if every value is exact in it and the input has few rows (symbolic extents count
    as one): a weight is then read once or a few times, and memory is the limit.
    """
    rows = math.prod(e if isinstance(e, int) else 1 for e in contraction.lead)
    if target.kind.name != "llvm" or contraction.dtype != "float32" or rows > FEW_ROWS:
        return ""
    return next((stored for stored in KINDS if exact(matrix, stored)), "")


def narrowed(storage: Any, stored: str) -> Any:
    """Return ``storage`` with its values ``stored`` in half precision, if at all."""
    return NarrowFormat(storage, stored) if stored else storage
