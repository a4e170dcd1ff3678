"""Tiled contractions of 2:4 weights on sparse tensor cores."""

from __future__ import annotations

from tvm_sparse.formats.two_four import EDGE
from tvm_sparse.ops.cuda.two_four import ROWS
from tvm_sparse.schedules.cuda.tile_tensor_core import TileTensorCoreRule


class TileTwoFourRule(TileTensorCoreRule):
    """Schedule a tiled contraction whose products are ``mma.sp`` of 16 rows and 32 features.

    As :class:`TileTensorCoreRule`, but weights stay packed until they are in registers.
    """

    operator = "tile_two_four"
    edges = (ROWS, EDGE, EDGE)
    pairs = False
