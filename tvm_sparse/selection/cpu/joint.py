"""Whether to store only what each bank holds instead of equally much of all, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from tvm.target import Target

from tvm_sparse.formats.arrays import itemsize
from tvm_sparse.formats.bank_slots import round_up
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat, fullest_rows
from tvm_sparse.formats.sliding_banks import SlidingBanks
from tvm_sparse.machine.costs import Costs
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.machine.record import Caches
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.joint import joint
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.cpu.assumptions import LOOKUP_ROWS, STREAMED, TABLE_GAIN
from tvm_sparse.selection.narrow import narrowest, stored

EMPTY = 0.05
"""Fraction of empty banks below which a table must be clearly cheaper than equally full banks."""

KEEPS = (1, 2, 3, 4, 5, 6, 8)
"""Values a row that an entry may have, besides those of the fullest row."""

SAMPLE = 16
"""Blocks of rows that are asked how many entries they take."""


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
    """Yield the cheapest format of a weight whose banks take as many entries as they need.

    It skips empty banks (a joint mask), and where some banks hold more than others (unstructured
    zeros) no bank is padded to the fullest of the matrix. The other ways to store a joint mask are
    candidates of their own: kept blocks dense (``block``) and all banks padded (``balanced``).
    """
    c = contraction
    if c.depthwise:
        return
    caches = machine_of(target).caches
    layer = _Layer(c, scan, engine_of(c.numerics, target), costs_of(target), caches)
    if not layer.banks:
        least = "16 columns" if layer.uneven else "a multiple of 16 columns"
        yield f"joint needs {least} a tap, found {c.columns}"
        return
    best = min((o for bank in layer.banks for o in layer.options(bank)), key=lambda o: o.cost)
    kept = np.mean(layer.fullest[layer.banks[0]] > 0)
    if kept > 1 - EMPTY and best.cost > TABLE_GAIN * layer.padded():
        yield f"joint: {kept:.0%} of the banks hold a nonzero, about as many each"
        return
    format = CompressedBanksFormat.of(
        scan.weight, keep=best.keep, bank=best.bank, span=c.columns, depth=layer.engine.depth
    )
    narrow = narrowest(c, scan, target)
    func = joint(narrow, format, target)
    yield Candidate("joint", stored(format, narrow, target), func, best.work, best.penalty)


@dataclass(frozen=True)
class _Layer:
    """What the cost of a format depends on."""

    contraction: Contraction
    scan: Scan
    engine: Engine
    costs: Costs
    caches: Caches

    @property
    def few(self) -> bool:
        """Whether lookups are hidden behind the loads of weights and indices."""
        return self.contraction.rows < LOOKUP_ROWS and self._lookup(self.engine.lanes) < 1

    @property
    def streamed(self) -> bool:
        """Whether the dense weight comes from memory in each call, and is used once."""
        size = self.scan.cells * itemsize(self.contraction.numerics.weight)
        return self.few and size >= self.caches.last

    @property
    def uneven(self) -> bool:
        """Whether this is the format for zeros anywhere: no lanes along the batch for them."""
        return self.contraction.rows < LANES or self.engine.depth > 1

    @cached_property
    def banks(self) -> list[int]:
        """Banks that fit a tap; side by side they divide it."""
        columns, known = self.contraction.columns, dict(self.costs.table)
        banks = (b for b in self.engine.banks if self.engine.words(b) in known and b <= columns)
        return [bank for bank in banks if self.uneven or columns % bank == 0]

    @cached_property
    def fullest(self) -> dict[int, npt.NDArray[np.int32]]:
        """The most nonzeros of a row in each block of rows x bank, by the width of the bank."""
        return {bank: fullest_rows(self.scan.block_counts(1, bank)) for bank in self.banks}

    def options(self, bank: int) -> Iterator[_Option]:
        """Yield what entries of different sizes cost."""
        depth, words = self.engine.depth, self.engine.words(bank)
        most, entry = self._most(bank), dict(self.costs.entry)[words]
        if self.streamed:
            step, entry = 1.0, STREAMED
        elif self.few:
            step = dict(self.costs.loaded)[words]
        else:
            step = 1 + self._lookup(words) + dict(self.costs.table)[words]
        for keep in sorted({round_up(k, depth) for k in (*KEEPS, most) if k <= most}):
            work = self._entries(bank, keep) * keep / self.scan.cols
            yield _Option(bank, keep, work, step + entry * depth / keep)

    def padded(self) -> float:
        """Return the cost of storing each bank as full as the fullest, without a table."""
        costs = [math.inf]
        for bank in self.banks:
            if self.contraction.columns % bank == 0:
                share = round_up(self._most(bank), self.engine.depth) / bank
                lookup = 0.0 if self.streamed else self._lookup(self.engine.words(bank))
                costs.append(share * (1 + lookup))
        return min(costs)

    def _most(self, bank: int) -> int:
        """Return what the fullest row of all banks holds."""
        return max(1, int(self.fullest[bank].max(initial=0)))

    def _entries(self, bank: int, keep: int) -> float:
        """Return the mean entries of a block of rows, of a sample where banks slide.

        Banks side by side take at least as many. Their number will do where uneven zeros have a
        better format.
        """
        if not self.uneven:
            return float((-(-self.fullest[bank] // keep)).sum(1).mean())
        banks = SlidingBanks(self.scan.cols, keep, bank, self.contraction.columns, LANES)
        return float(banks.counts(self._sample).mean())

    @cached_property
    def _sample(self) -> npt.NDArray[np.uint64]:
        """Bits of some blocks of rows."""
        blocks = np.unique(np.linspace(0, (self.scan.rows - 1) // LANES, SAMPLE).astype(int))
        rows = (blocks[:, None] * LANES + np.arange(LANES)).ravel()
        return self.scan.bits[rows[rows < self.scan.rows]]

    def _lookup(self, words: int) -> float:
        return self.costs.of_lookup(words, self.contraction.numerics.bits)
