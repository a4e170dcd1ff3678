"""What a weight stream demands of a chip: few rows of activations, the weight read once."""

from __future__ import annotations

import math

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.lane_banks import LANES, VECTOR_BYTES, LaneBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends, stream
from tvm_sparse.ops.cuda.stream import DENSE_STEPS, Warps
from tvm_sparse.selection.cuda.assumptions import BANK_LOOKUP, BANK_PRODUCT
from tvm_sparse.selection.cuda.demand import Demand
from tvm_sparse.selection.cuda.tile_demand import partial_bytes

LINE = 128
"""Bytes of a line of L1."""

WIDE = 8
"""Columns must be a multiple of these for loads of activations not to wait for one another, unless
they are clamped."""

AT_ONCE = 8
"""Of those, a thread's that do not wait for one another: they are unrolled."""

DENSE_PRODUCT = 4.0
"""Instructions of a product of a dense stream (machine code)."""

SECTORS, APART_PASSES = 32, 32
"""Pieces of L1 that a warp's words fall into, at most, and passes of a load that has them all."""

FEW_REGISTERS, MANY_REGISTERS = 40, 64
"""Registers of a thread, with less than eight rows of sums and with more (machine code)."""

OTHER_REGISTERS = 56
"""Registers of a thread of a part of the reduction, besides its sums (machine code, about)."""


def banks_demand(c: Contraction, s: LaneBanksFormat, warps: Warps) -> Demand:
    """Return the demand of streamed banks."""
    rows, item = stream.padded_rows(math.prod(c.lead)), bits_of(c.dtype) // 8
    cut = stream.Cut(s, warps)
    threads, slots = warps.count * LANES, warps.block * cut.slots
    staged, parts = stream.staged_bytes(c, cut), warps.parts
    loaded_plainly = c.columns % WIDE == 0 or mends.in_use().clamped_loads
    narrow = staged // (cut.columns * rows)
    vector = s.beside or math.gcd(s.words, VECTOR_BYTES // 4)
    # Lanes whose words are not next to each other meet in a pass for each sector.
    loads = s.words / vector * warps.block
    apart = 0.0 if s.beside else loads * min(SECTORS, s.words * 4) / SECTORS * APART_PASSES
    gathered = slots / cut.chunks * max(1.0, rows * narrow / 4)
    blocks = math.ceil(s.rows / warps.block) * parts
    nbytes, columns = s.nbytes(c.dtype), min(c.columns, cut.columns)
    partial = partial_bytes(math.prod(c.lead) * s.rows, parts)
    written = partial + math.prod(c.lead) * s.rows * item if partial else 0.0
    return Demand(
        blocks=blocks,
        threads=threads,
        registers=registers(rows, warps),
        shared=staged + stream.result_bytes(c, warps),
        steps=cut.chunks,
        dtype=c.dtype,
        nbytes=nbytes + activation_bytes(c) + partial,
        passes=gathered + apart,
        fed=nbytes / blocks / cut.chunks,
        issued=slots * (BANK_LOOKUP + BANK_PRODUCT * rows) / cut.chunks,
        first=0.0 if loaded_plainly else max(0.0, columns * rows / threads - AT_ONCE),
        begun=_lines(c, s, columns * rows),
        added=written,
        streams=True,
    )


def _lines(c: Contraction, s: LaneBanksFormat, values: int) -> float:
    """Return the lines of L1 that loads of so many activations touch: lanes are a bank apart."""
    item = bits_of(c.dtype) // 8
    plain = c.columns % WIDE == 0 or item == 4 or mends.in_use().clamped_loads
    vector = math.gcd(c.columns, VECTOR_BYTES // item) if plain else 1
    return values / vector * min(1.0, s.bank * item / LINE)


def registers(rows: int, warps: Warps) -> int:
    """Return the registers of a thread, about; ``rows`` are those of sums for each weight row."""
    if warps.parts > 1:
        return OTHER_REGISTERS + rows * warps.rows
    return MANY_REGISTERS if rows >= WIDE else FEW_REGISTERS


def dense_demand(c: Contraction, s: DenseFormat, warps: Warps) -> Demand:
    """Return the demand of a dense weight and one row of activations."""
    vector = math.gcd(c.columns, VECTOR_BYTES * 8 // bits_of(c.dtype))
    steps = math.ceil(math.ceil(c.columns / (LANES * vector)) / DENSE_STEPS)
    blocks, nbytes = math.ceil(c.features / warps.block), s.nbytes(c.dtype)
    return Demand(
        blocks=blocks,
        threads=warps.count * LANES,
        registers=FEW_REGISTERS,
        shared=warps.block * 4,
        steps=steps,
        dtype=c.dtype,
        nbytes=nbytes + activation_bytes(c),
        fed=nbytes / blocks / steps,
        issued=warps.block * c.columns * DENSE_PRODUCT / LANES / steps,
        streams=True,
    )


def activation_bytes(c: Contraction) -> float:
    """Return the bytes of input and output."""
    return math.prod(c.lead) * (c.features + c.columns) * bits_of(c.dtype) / 8
