"""Two masks in one: which balanced mask the kept blocks hold, where blocks hide parts of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_sparse.machine.vector import BANK
from tvm_sparse.patterns.banks import IN_REGISTER, balanced_cost, stored_values
from tvm_sparse.patterns.block import block_cost
from tvm_sparse.patterns.chance import log_dispersion
from tvm_sparse.patterns.cost import Cost, index_bits, modelled
from tvm_sparse.patterns.grid import Grid
from tvm_sparse.patterns.scan import Scan

LEAST_VARIANCE = 4.0
"""Counts of banks with less binomial variance are too far from normal for the dispersion test."""
LIMIT_INSIDE = math.log(1e-4)
"""Banks inside blocks are claimed below this chance; the blocks themselves are beyond doubt."""
SHORTLIST = 4
STANDARD_ERRORS = 4.0
TRUNCATION_STEPS = 20


@dataclass(frozen=True)
class HiddenBank:
    """Banks of ``columns`` with ``keep`` nonzeros, and the log of the chance that they are none."""

    columns: int
    keep: int
    log: float


def hidden_bank(scan: Scan, grid: Grid) -> HiddenBank | None:
    """Return the banks that blocks of ``grid`` were cut out of, if counts show them.

    A bank with v of its B weights in kept blocks holds c nonzeros. If the whole bank holds k, then
    c varies less than the sum of as many blocks of different banks, by (B - v) / (B - 1). So every
    B is tested for too little variance, given v.
    """
    # Smaller banks would lie inside a block, of which the whole bank is seen.
    smallest = max(BANK, 2 * grid.cols)
    if scan.cols < smallest:
        return None
    size = grid.rows, grid.cols
    unit = _block_variance(scan.visible_moments(*size, [grid.cols])[0], grid.cols)
    everything = np.arange(smallest, scan.cols + 1)
    screened = _logs(scan.visible_moments(*size, everything, scan.step), unit)
    likely = everything[np.lexsort((everything, screened))[:SHORTLIST]]
    usual = {bank for bank in (scan.cols, scan.cols // 2) if bank >= smallest}
    banks = np.array(sorted(usual | set(likely.tolist())))
    tried = np.where(np.isin(banks, list(usual)), len(usual), scan.cols)
    logs = _logs(scan.visible_moments(*size, banks), unit) + np.log(tried)
    best = int(np.argmin(logs))
    if logs[best] >= LIMIT_INSIDE:
        return None
    return HiddenBank(
        int(banks[best]), _whole_count(scan, grid, int(banks[best])), float(logs[best])
    )


def joint_cost(scan: Scan, grid: Grid, bank: HiddenBank) -> Cost:
    """Return the cost of the cheapest of the three ways to store a joint mask.

    Kept blocks stored densely; kept blocks with padded rows (or, if banks lie inside blocks, with
    padded banks) inside; or padded banks alone.
    """
    counts = scan.block_counts(grid.rows, grid.cols) > 0
    if grid.cols % bank.columns == 0:
        values = grid.inside // bank.columns * bank.keep
        choices, lookups = bank.columns, 0.5 if bank.columns <= IN_REGISTER else 1.0
    else:
        starts = np.arange(0, scan.rows, grid.rows)
        heights = np.diff(np.append(starts, scan.rows))
        values = int(np.maximum.reduceat(scan.row_count, starts) @ heights)
        choices, lookups = min(scan.cols, int(counts.sum(1).max()) * grid.cols), 1.0
    bits = values * index_bits(choices) + 32 * grid.occupied
    inner = modelled(scan.cells, values, bits, scan.itemsize, lookups)
    most = int(scan.block_counts(1, bank.columns).max())
    plain = stored_values(scan.rows, scan.cols, bank.columns, most)
    padded = balanced_cost(scan, bank.columns, plain)
    return min(block_cost(scan, grid), inner, padded, key=lambda cost: cost.relative)


def _block_variance(moments: np.ndarray, cols: int) -> float:
    """Return the variance a column of the nonzeros that one row of a kept block holds.

    Measured, not binomial: pruning whole blocks leaves blocks that are alike.
    """
    blocks, _, nonzeros, ratio = moments.tolist()
    return float(ratio / blocks - (nonzeros / blocks) ** 2 / cols)


def _logs(moments: np.ndarray, unit: float) -> np.ndarray:
    """Return the log chance of so little variance, for each row of :meth:`Scan.visible_moments`."""
    logs = np.zeros(len(moments))
    for i, (banks, cells, nonzeros, ratio) in enumerate(moments.tolist()):
        if banks and cells / banks * unit >= LEAST_VARIANCE:
            density = nonzeros / cells
            squares = ratio - 2 * density * nonzeros + density * density * cells
            logs[i] = log_dispersion(banks, max(0.0, squares) / unit / banks)
    return logs


def _whole_count(scan: Scan, grid: Grid, bank: int) -> int:
    """Return the nonzeros of a whole bank, estimated from the banks that blocks cut.

    If both masks ranked independent scores, hidden weights are as dense as visible ones. If not
    (both ranked magnitudes), the line through (v, c) is followed to v = B instead. Any count
    that no bank contradicts describes the mask exactly.
    """
    whole = scan.cols // bank
    c = scan.block_counts(1, bank)[:, :whole].astype(np.float64)
    kept = np.repeat(scan.block_counts(grid.rows, grid.cols) > 0, grid.cols, axis=1)
    per_bank = kept[:, : whole * bank].reshape(len(kept), whole, bank).sum(2, dtype=np.float64)
    v = np.repeat(per_bank, grid.rows, axis=0)[: scan.rows]
    low, high = int(c.max()), int(bank - (v - c).max())
    c, v = c[v > 0], v[v > 0]
    estimate = bank * _before_truncation(c.sum() / v.sum(), grid.rows * grid.cols)
    spread = v.var()
    if spread:
        slope = ((v - v.mean()) * (c - c.mean())).mean() / spread
        at_full = c.mean() + slope * (bank - v.mean())
        noise = (c - c.mean() - slope * (v - v.mean())).var() / c.size
        error = math.sqrt(noise * (1 + (bank - v.mean()) ** 2 / spread))
        if abs(at_full - estimate) > STANDARD_ERRORS * error:
            estimate = at_full
    return max(low, min(high, round(float(estimate))))


def _before_truncation(density: float, size: int) -> float:
    """Return the density of all blocks of ``size``, given that of those not empty by chance."""
    before = density
    for _ in range(TRUNCATION_STEPS):
        before = density * (1 - (1 - before) ** size)
    return before
