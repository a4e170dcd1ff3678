"""What a weight stream demands of a chip: few rows of activations, the weight read once."""

from __future__ import annotations

import math

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.lane_banks import LANES, VECTOR_BYTES, LaneBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import stream
from tvm_sparse.ops.cuda.stream import DENSE_STEPS, Warps
from tvm_sparse.selection.cuda.assumptions import BANK_LOOKUP, BANK_PRODUCT
from tvm_sparse.selection.cuda.demand import Demand

WIDE = 8
"""Columns must be a multiple of these for activations to be read 16 bytes at a time: one by one
otherwise (machine code)."""

AT_ONCE = 8
"""Of those, a thread's that do not wait for one another: they are unrolled."""

DENSE_PRODUCT = 4.0
"""Instructions of a product of a dense stream (machine code)."""

SECTORS, APART_PASSES = 32, 32
"""Pieces of L1 that a warp's words fall into, at most, and passes of a load that has them all."""

FEW_REGISTERS, MANY_REGISTERS = 40, 64
"""Registers of a thread, with less than eight rows of sums and with more (machine code)."""


def banks_demand(c: Contraction, s: LaneBanksFormat, warps: Warps) -> Demand:
    """Return the demand of streamed banks."""
    rows, item = stream.padded_rows(math.prod(c.lead)), bits_of(c.dtype) // 8
    threads, slots = warps.count * LANES, warps.block * s.slots
    staged = stream.staged_bytes(c, s)
    narrow = staged // (stream.staged_columns(s) * rows)
    vector = s.beside or math.gcd(s.words, VECTOR_BYTES // 4)
    # Lanes whose words are not next to each other meet in a pass for each sector.
    loads = s.words / vector * warps.block
    apart = 0.0 if s.beside else loads * min(SECTORS, s.words * 4) / SECTORS * APART_PASSES
    gathered = slots / s.chunks * max(1.0, rows * narrow / 4)
    blocks = math.ceil(s.rows / warps.block)
    nbytes = s.nbytes(c.dtype)
    return Demand(
        blocks=blocks,
        threads=threads,
        registers=MANY_REGISTERS if rows >= WIDE else FEW_REGISTERS,
        shared=staged + stream.result_bytes(c, warps),
        steps=s.chunks,
        dtype=c.dtype,
        nbytes=nbytes + activation_bytes(c),
        passes=gathered + apart,
        fed=nbytes / blocks / s.chunks,
        issued=slots * (BANK_LOOKUP + BANK_PRODUCT * rows) / s.chunks,
        first=max(0.0, c.columns * rows / threads - AT_ONCE) if c.columns % WIDE else 0.0,
        begun=c.columns * rows * item,
        streams=True,
    )


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
