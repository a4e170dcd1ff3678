"""What a dense library would take for a layer: to tell a user, who may call it himself.

No library is called by what we compile (docs/design/cuda.md).
"""

from __future__ import annotations

import math

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cuda.chip import Chip, DenseLibrary
from tvm_sparse.selection.cuda.demand import slower
from tvm_sparse.selection.cuda.tile_choice import known_rows

TILE = 32
"""Rows of activations that a library fills up to, unless there is a single one."""

FASTER = 1.1
"""How many times faster a library must be modelled to be named."""


def dense_seconds(size: tuple[int, int, int], dtype: str, on: Chip, library: DenseLibrary) -> float:
    """Return the modelled time of a dense product of ``size`` (rows, features, columns)."""
    rows, features, columns = size
    nbytes = (rows * features + rows * columns + features * columns) * bits_of(dtype) / 8
    filled = 1 if rows == 1 else math.ceil(rows / TILE) * TILE
    products = (
        filled * features * columns / (on.sms * on.clock * on.peaks[dtype] * library.parts[dtype])
    )
    return library.launch + slower(library.memory * nbytes / on.bandwidth, products)


def faster_library(c: Contraction, ours: float, on: Chip) -> str:
    """Return a sentence if a dense library is modelled clearly faster than ``ours`` seconds."""
    if c.depthwise or c.dtype not in on.library.parts:
        return ""
    size = (known_rows(c.lead), *c.matrix_shape)
    theirs = dense_seconds(size, c.dtype, on, on.library)
    if ours < FASTER * theirs:
        return ""
    return (
        f"a dense library would be faster by the model: {on.library.name} {theirs * 1e6:.1f} us,"
        f" ours {ours * 1e6:.1f} us"
    )
