"""Which balanced formats fit a weight matrix, and what they would cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from tvm.target import Target

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.machine.costs import FROM_MEMORY
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.vector import BANK
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu.assumptions import LOOKUP_ROWS, WEIGHT_ROWS
from tvm_sparse.selection.narrow import narrowest, stored

BYTES = 4
"""Columns of a lane that have a byte each."""


def balanced_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the balanced format of a weight, rows sharing columns where they really do.

    Of the sizes of banks that the target looks up, it has the one that is modelled faster. With
    hardly any rows of input that is the smaller format: weights are loaded longer than used.
    """
    c = contraction
    if c.depthwise:
        return
    segments = math.prod(c.taps)
    engine = engine_of(c.numerics, target)
    banks = engine.banks
    if not banks:
        yield f"balanced needs registers that {c.dtype} is looked up in"
        return
    try:
        found = [
            _format(scan.weight, bank, segments, engine.depth, _parts(c, engine, bank))
            for bank in banks
            if bank == banks[0] or bank <= c.columns
        ]
    except UnsupportedError as error:
        yield str(error)
        return
    loaded = dict(costs_of(target).loaded) if c.rows < LOOKUP_ROWS else {}

    def time(format: BalancedFormat) -> float:
        if loaded:
            return format.nbytes() * loaded.get(engine.words(format.bank), FROM_MEMORY)
        return _work(format) * _penalty(format, engine, target)

    format = min(found, key=lambda s: (time(s), -s.bank))  # of equals, whole registers
    narrow = narrowest(c, scan, target)
    func = balanced(narrow, format, target)
    penalty = _penalty(format, engine, target)
    held = stored(format, narrow, target)
    yield Candidate("balanced", held, func, _work(format), penalty)


def _parts(contraction: Contraction, engine: Engine, bank: int) -> int:
    """Return the parts of a bank: of 16 columns where two indices then fit a byte.

    They need a quarter less memory, and two instructions more for each two slots. That pays where
    few rows use a weight.
    """
    parts = contraction.rows <= WEIGHT_ROWS and engine.depth == BYTES
    return max(1, bank // BANK) if parts else 1


def _format(matrix: np.ndarray, bank: int, segments: int, depth: int, parts: int) -> BalancedFormat:
    """Return the format in banks of ``bank`` columns that most rows share without padding."""
    make = partial(
        BalancedFormat.of, matrix, bank=bank, segments=segments, depth=depth, parts=parts
    )
    alone, shared = make(), (make(share=s) for s in (4, 2))
    size = alone.keep, alone.row_blocks
    return next((s for s in shared if (s.keep, s.row_blocks) == size), alone)


def _work(format: BalancedFormat) -> float:
    return format.keep / format.bank


def _penalty(format: BalancedFormat, engine: Engine, target: Target) -> float:
    """Return the cost of a multiply-add; rows that share columns look up once."""
    lookup = costs_of(target).of_lookup(engine.words(format.bank), engine.numerics.bits)
    return 1 + lookup / format.share
