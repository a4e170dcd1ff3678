"""Reductions that are cut into parts: thread blocks of their own leave partial sums in memory.

A kernel that follows adds them, in the order of the parts: the result does not depend on which
thread block is done first. (Split-K.)
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.marks import int64

PARTIAL, TOTAL = "partial", "total_parts"
"""Names of the blocks that store the sums of a part, and that add the parts."""


def add_parts(c: Contraction, sums: tirx.Buffer, parts: int) -> Any:
    """Emit the blocks that store and add ``sums[row, part * features + feature]``.

    Return ``[row, feature]``. Rows are those of ``c``, features may be filled up.
    """
    rows, wide = math.prod(c.lead), int(sums.shape[1])
    features, dtype = wide // parts, str(sums.dtype)
    partial = T.sblock_alloc_buffer(int64((rows, wide)), dtype)
    with T.grid(*partial.shape) as axes, T.sblock(PARTIAL):
        place = list(T.axis.remap("SS", axes))
        T.reads(sums[tuple(place)])
        T.writes(partial[tuple(place)])
        T.buffer_store(partial, sums[tuple(place)], place)
    total = T.sblock_alloc_buffer(int64((rows, features)), dtype)
    with T.grid(*int64((rows, features, parts))) as axes, T.sblock(TOTAL):
        row, feature, part = T.axis.remap("SSR", axes)
        value = partial[row, part * features + feature]
        T.reads(value)
        T.writes(total[row, feature])
        with T.init():
            T.buffer_store(total, tirx.const(0, dtype), [row, feature])
        T.buffer_store(total, total[row, feature] + value, [row, feature])
    return total
