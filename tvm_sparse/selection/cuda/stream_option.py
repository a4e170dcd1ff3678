"""A weight stream as an option: whole, or cut into parts whose activations fit on chip."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from tvm_sparse.formats.lane_banks import CHUNK, LaneBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends, stream
from tvm_sparse.ops.cuda.stream import Cut, Warps
from tvm_sparse.selection.cuda.assumptions import SM_REGISTERS
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import seconds
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.stream_demand import banks_demand, registers
from tvm_sparse.selection.cuda.tile_choice import SPLIT

Shape = tuple[LaneBanksFormat, Warps]

CHUNKS = (CHUNK, 32, 16)
"""Slots of a chunk, at most, that are tried: shorter chunks make more parts."""

MOST_PARTS = 32
"""Parts of a reduction that are tried, at most."""

WAVE_WARPS, WAVE_ROWS = 8, range(1, 9)
"""Warps of a thread block, and weight rows of a warp, that are tried for a whole stream."""

UNSEEN = 1.15
"""How much faster these must be by the model: no GPU has run them."""

COUNTS, ROWS = (8, 16, 32), (1, 2, 4, 8)
"""Warps of a thread block, and weight rows of a warp, that are tried for parts."""


def streamed(c: Contraction, s: LaneBanksFormat, on: Chip, shared: int) -> Option | None:
    """Return the fastest stream of ``s``, or None where the activations do not fit on chip."""
    beside = mends.in_use().words_beside
    times: dict[Shape, float] = {}
    whole = s.words_beside() if beside else s
    staged = stream.staged_bytes(c, Cut(whole, Warps(1, 1)))
    known = stream.choose_warps(s.rows, on.sms, staged)
    for shape in [(whole, known), *_in_waves(c, whole), *_in_parts(c, s)]:
        if _shared_bytes(c, *shape) <= shared:
            margin = SPLIT if shape[1].parts > 1 else 1.0 if shape[1] == known else UNSEEN
            times[shape] = margin * seconds(banks_demand(c, *shape), on)
    if not times:
        return None
    format, warps = min(_wanted(times), key=times.__getitem__)
    demand = banks_demand(c, format, warps)
    work = s.rows * stream.LANES * format.slots / math.prod(c.matrix_shape)
    build = partial(stream.stream_balanced, c, format, warps)
    return Option(
        "balanced", "stream", format, work, seconds(demand, on), build, demand, warps=warps
    )


def _wanted(shapes: Iterable[Shape]) -> list[Shape]:
    """Return those with as many parts as are wanted, or the most below; all if none has so few."""
    found, forced = list(shapes), mends.in_use().parts
    few = {warps.parts for _, warps in found if warps.parts <= forced}
    return [shape for shape in found if not few or shape[1].parts == max(few)]


def _in_waves(c: Contraction, s: LaneBanksFormat) -> Iterator[Shape]:
    """Yield whole streams whose thread blocks may all be on the GPU at once.

    Each stages the activations: of a single row, which GPUs have timed, that is little.
    """
    if mends.in_use().wave_rows and math.prod(c.lead) > 1:
        yield from ((s, Warps(WAVE_WARPS, rows)) for rows in WAVE_ROWS)


def _in_parts(c: Contraction, s: LaneBanksFormat) -> Iterator[Shape]:
    """Yield the ways to cut a stream whose sums and operands fit the registers of an SM."""
    if not mends.in_use().segments:
        return
    rows = stream.padded_rows(math.prod(c.lead))
    shorter = [replace(s, most=most) for most in CHUNKS]
    beside = mends.in_use().words_beside
    for format in dict.fromkeys(s.words_beside() if beside else s for s in shorter):
        most = min(MOST_PARTS, format.chunks)
        even = [parts for parts in range(2, most + 1) if format.chunks % parts == 0]
        for shape in itertools.product(COUNTS, ROWS, even):
            warps = Warps(*shape)
            if warps.count * stream.LANES * registers(rows, warps) <= SM_REGISTERS:
                yield format, warps


def _shared_bytes(c: Contraction, format: LaneBanksFormat, warps: Warps) -> int:
    """Return the shared memory of a thread block."""
    return stream.staged_bytes(c, Cut(format, warps)) + stream.result_bytes(c, warps)
