"""Columns of a tensor at places known when compiling, from one vector or two, by shuffles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.tensors.axis import flat_view
from tvm_sparse.ops.tensors.permute import PARALLEL_POINTS
from tvm_sparse.ops.tensors.windows import MOST_CHUNKS, Chunk


def chunks_of(places: Sequence[int], extent: int) -> list[Chunk] | None:
    """Return how to read ``places`` of an axis of ``extent``; ``None`` if shuffles cannot.

    The last chunk ends with the row: it may overlap the one before.
    """
    width = min(LANES, extent)
    size = min(LANES, len(places), 2 * width)
    if size < 2 or width < 2 or len(places) > MOST_CHUNKS * size:
        return None
    starts = [min(first, len(places) - size) for first in range(0, len(places), size)]
    found = [_chunk(start, places[start : start + size], extent, width) for start in starts]
    whole = [chunk for chunk in found if chunk is not None]
    return whole if len(whole) == len(found) else None


def _chunk(start: int, sources: Sequence[int], extent: int, width: int) -> Chunk | None:
    """Return a chunk from two vectors, the last of which ends with the row; ``None`` if too far.

    One is enough for results from its own lanes, unless they are more.
    """
    first = min(*sources, extent - width)
    beyond = min((s for s in sources if s >= first + width), default=first + width)
    loads = [first, min(beyond, extent - width)]
    lanes = [s - loads[0] if s < first + width else width + s - loads[1] for s in sources]
    if max(lanes) >= 2 * width:
        return None
    count = 1 if max(lanes) < width and len(lanes) <= width else 2
    return Chunk(start, tuple(loads[:count]), (tuple(lanes),))


def near_columns(
    x: te.Tensor, places: Sequence[int], chunks: Sequence[Chunk], rows: te.Tensor | None = None
) -> te.Tensor:
    """Return ``x[..., places]``, of a static shape, read as ``chunks`` say.

    With ``rows``, which are numbers of rows of ``x``, it is ``x[..., rows, places]``.
    """
    *lead, extent = (int(e) for e in x.shape)
    counts = lead if rows is None else [*lead[:-1], int(rows.shape[0])]
    wanted, width = len(places), min(LANES, extent)
    loop = T.parallel if math.prod(counts) * wanted >= PARALLEL_POINTS else T.serial

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, tirx.const(math.prod(counts), "int64")) as row:
            source = flat_view(inputs[0], math.prod(lead) * extent)
            result = flat_view(outputs[0], math.prod(counts) * wanted)
            here = row
            if rows is not None:
                plane, number = unravel(row, (math.prod(counts[:-1]), counts[-1]))
                chosen = T.buffer_proxy(inputs[1])[number]
                here = T.bind(plane * lead[-1] + tirx.Cast("int64", chosen))
            for chunk in chunks:
                loads = [tirx.Ramp(here * extent + load, 1, width) for load in chunk.loads]
                lanes = [tirx.const(lane, "int32") for lane in chunk.taps[0]]
                there = tirx.Ramp(row * wanted + chunk.start, 1, len(lanes))
                result[there] = tirx.Shuffle([source[place] for place in loads], lanes)
        return builder.get()

    operands = [x] if rows is None else [x, rows]
    return te.extern([[*counts, wanted]], operands, emit, name="near_columns", dtype=[x.dtype])
