"""The last step of a contraction: sums become the output, plus what zero points add to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.marks import int64


def declare_offsets(c: Contraction, engine: Engine) -> Any:
    """Emit the parameter that has a number to add to each feature; ``None`` if there is none."""
    if not engine.corrects(c.zero_point):
        return None
    return T.arg("Z", T.Buffer(int64((c.features,)), c.numerics.accumulate))


def store(
    c: Contraction, sum_of: Callable[[list[Any], Any], Any], offsets: Any, y: tirx.Buffer
) -> None:
    """Emit the block ``store``, behind which element-wise steps fuse.

    ``sum_of`` returns the sum of an output row and a feature; ``offsets``, if there are any, has a
    number to add for each feature.
    """
    with T.grid(*int64(c.output_shape)) as axes, T.sblock("store"):
        *lead, out = T.axis.remap("S" * len(c.output_shape), axes)
        parts = [sum_of(lead, out)]
        parts += [] if offsets is None else [offsets[out]]
        T.reads(*parts)
        T.writes(y[(*lead, out)])
        total = sum(parts[1:], parts[0])
        narrow = c.out_dtype != c.numerics.accumulate
        T.buffer_store(y, tirx.Cast(c.out_dtype, total) if narrow else total, [*lead, out])
