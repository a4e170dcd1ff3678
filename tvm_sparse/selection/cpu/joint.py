"""Whether to store only what each bank holds instead of equally much of all, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm.target import Target

from tvm_sparse.engine.cpu import Engine
from tvm_sparse.engine.registry import engine_of
from tvm_sparse.formats.bank_slots import round_up
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat, fullest_rows
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.joint import joint
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu.balanced import LOOKUP_ROWS
from tvm_sparse.selection.cpu.compressed_rows import output_rows
from tvm_sparse.selection.narrow import narrowest, stored

EMPTY, GAIN = 0.05, 0.9
"""Fraction of empty banks below which a table is only worth its loads if the modelled cost is at
most so much of that of equally full banks."""

KEEPS = (1, 2, 3, 4, 6, 8)
"""Values a row that an entry may have, besides those of the fullest row."""


@dataclass(frozen=True)
class _Option:
    """Entries of ``keep`` values in banks of ``bank`` columns, which execute ``work``."""

    bank: int
    keep: int
    work: float
    penalty: float

    @property
    def cost(self) -> float:
        """Modelled time relative to the dense operator."""
        return self.work * self.penalty


def joint_candidates(
    contraction: Contraction, scan: Scan, target: Target
) -> Iterator[Candidate | str]:
    """Yield the cheapest storage of a weight whose banks take as many entries as they need.

    It skips empty banks (a joint mask), and where some banks hold more than others (unstructured
    zeros) no bank is padded to the fullest of the matrix. The other ways to store a joint mask are
    candidates of their own: kept blocks dense (``block``) and all banks padded (``balanced``).
    """
    c = contraction
    if c.depthwise:
        return
    engine = engine_of(c.numerics, target)
    banks = [bank for bank in engine.banks if c.columns % bank == 0]
    if not banks:
        yield f"joint needs a multiple of 16 columns a tap, found {c.columns}"
        return
    fullest = {bank: fullest_rows(scan.block_counts(1, bank)) for bank in banks}
    best = min(
        (o for b in banks for o in _options(c, fullest[b], b, engine, target)), key=lambda o: o.cost
    )
    padded = min(_padded(c, fullest[bank], bank, engine, target) for bank in banks)
    kept = np.count_nonzero(fullest[banks[0]]) / fullest[banks[0]].size
    if kept > 1 - EMPTY and best.cost > GAIN * padded:
        yield f"joint: {kept:.0%} of the banks hold a nonzero, about as many each"
        return
    storage = CompressedBanksFormat.of(
        scan.weight, keep=best.keep, bank=best.bank, depth=engine.depth
    )
    narrow = narrowest(c, scan, target)
    func = joint(narrow, storage, target)
    yield Candidate("joint", stored(storage, narrow, target), func, best.work, best.penalty)


def _options(
    c: Contraction, fullest: npt.NDArray[np.int32], bank: int, engine: Engine, target: Target
) -> Iterator[_Option]:
    """Yield what entries of different sizes cost, given the fullest row of each block."""
    most = max(1, int(fullest.max(initial=0)))
    costs, words = costs_of(target), engine.words(bank)
    table, entry = dict(costs.table)[words], dict(costs.entry)[words]
    step = _step(c, words, target)
    for keep in sorted({round_up(k, engine.depth) for k in (*KEEPS, most) if k <= most}):
        entries = int((-(-fullest // keep)).sum())
        work = entries * keep / (fullest.size * bank)
        yield _Option(bank, keep, work, step + table + entry * engine.depth / keep)


def _padded(
    c: Contraction, fullest: npt.NDArray[np.int32], bank: int, engine: Engine, target: Target
) -> float:
    """Return the cost of storing each bank as full as the fullest, without a table."""
    most = round_up(max(1, int(fullest.max(initial=0))), engine.depth)
    return most / bank * _step(c, engine.words(bank), target)


def _step(c: Contraction, words: int, target: Target) -> float:
    """Return the cost of a multiply-add with its lookup in as many registers as ``words`` fill.

    With hardly any rows of input lookups are hidden behind the loads of weights and indices.
    """
    costs = costs_of(target)
    lookup = costs.of_lookup(words, c.numerics.bits)
    few = output_rows(c) < LOOKUP_ROWS and lookup < 1
    return dict(costs.loaded)[words] if few else 1 + lookup
