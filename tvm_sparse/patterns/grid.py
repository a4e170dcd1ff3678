"""Which blocks a mask is made of: candidate extents from neighbour statistics, then code length."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.patterns.chance import LIMIT, log_block_gain
from tvm_sparse.patterns.scan import Scan

USUAL = (1, 2, 4, 8, 16, 32, 64, 128)
PERIODS_TRIED = 3
SAMPLED_CELLS = 2**22
CONFIRMED = 4
ALIKE = 0.98


@dataclass(frozen=True)
class Grid:
    """A cut of the matrix into blocks ``rows`` x ``cols``, and how far the zeros follow it.

    ``occupied`` of ``blocks`` blocks hold a nonzero and have ``inside`` weights; ``log`` bounds
    the log of the chance that a random mask leaves so many blocks empty, for all extents tried.
    """

    rows: int
    cols: int
    blocks: int
    occupied: int
    inside: int
    log: float


def best_grids(scan: Scan) -> list[Grid]:
    """Return the cuts whose empty blocks are more than chance, the best explanation first.

    The true extents have the shortest code: smaller blocks need more bits to say which are
    kept, larger ones keep weights that are zero. Of codes of nearly the same length, which a few
    stray weights leave, the largest blocks are the best explanation.
    """
    if not 0 < scan.nonzeros < scan.cells:
        return []
    top = min(scan.rows, max(SAMPLED_CELLS // scan.cols, 512))
    exact = exact_period(scan.row_count, scan.row_pair), exact_period(scan.col_count, scan.col_pair)
    heights = _extents(exact[0], scan.row_count, scan.row_pair, scan.cols)
    widths = _extents(exact[1], scan.col_count, scan.col_pair, scan.rows)
    screened = []
    for rows in heights:
        part = top if 8 * rows <= top else scan.rows
        nonzeros = int(scan.row_count[:part].sum())
        for cols in widths:
            cut = _measure(scan, rows, cols, part, nonzeros)
            screened.append((cut.log / part, rows, cols))
    screened.sort()
    alike = [s for s in screened if s[0] <= ALIKE * screened[0][0]]
    sizes = {exact, *((rows, cols) for _, rows, cols in {*alike, *screened[:CONFIRMED]})}
    grids = [_measure(scan, *size, scan.rows, scan.nonzeros) for size in sorted(sizes - {(1, 1)})]
    tried = math.log(scan.cells)
    found = [Grid(g.rows, g.cols, g.blocks, g.occupied, g.inside, g.log + tried) for g in grids]
    found = sorted((grid for grid in found if grid.log < LIMIT), key=lambda grid: grid.log)
    alike_sizes = [grid for grid in found if grid.log <= ALIKE * found[0].log]
    largest_first = sorted(alike_sizes, key=lambda grid: -grid.rows * grid.cols)
    return largest_first + found[len(alike_sizes) :]


def exact_period(count: npt.NDArray[np.int64], pair: npt.NDArray[np.int64]) -> int:
    """Return the largest P such that lines differ from their predecessor at multiples of P only.

    ``count`` are the nonzeros of each line (row or column), ``pair`` those at the same place in
    the line before.
    """
    same = (pair[1:] == count[1:]) & (pair[1:] == count[:-1])
    changed = np.flatnonzero(~same) + 1
    return int(np.gcd.reduce(changed)) if len(changed) else len(count)


def likely_periods(
    count: npt.NDArray[np.int64], pair: npt.NDArray[np.int64], length: int
) -> list[int]:
    """Return the P for which neighbours correlate best, except across multiples of P.

    Lines of one block have the same support, so they correlate; lines of two blocks do not. The
    explained variance between the two groups of neighbours is largest for the true extent.
    """
    filled = count.astype(np.float64)
    spread = np.sqrt(filled * (length - filled))
    scale = spread[1:] * spread[:-1]
    known = scale > 0
    excess = length * pair[1:] - filled[1:] * filled[:-1]
    phi = np.divide(excess, scale, out=np.zeros(len(scale)), where=known)
    total, number = phi.sum(), known.sum()
    gains = []
    for period in range(2, len(count) // 2 + 1):
        edge, edges = phi[period - 1 :: period].sum(), known[period - 1 :: period].sum()
        inner = number - edges
        if edges and inner:
            gap = (total - edge) / inner - edge / edges
            if gap > 0:
                gains.append((gap * gap * edges * inner, period))
    return [period for _, period in sorted(gains, reverse=True)[:PERIODS_TRIED]]


def _extents(
    exact: int, count: npt.NDArray[np.int64], pair: npt.NDArray[np.int64], length: int
) -> list[int]:
    """Return the extents to try along one axis."""
    tried = {*USUAL, exact, len(count), *likely_periods(count, pair, length)}
    return sorted(extent for extent in tried if extent <= len(count))


def _measure(scan: Scan, rows: int, cols: int, top: int, nonzeros: int) -> Grid:
    """Return the cut of the first ``top`` rows, which hold ``nonzeros``."""
    occupied, inside = scan.block_totals(rows, cols, top=top)
    blocks = -(-top // rows) * -(-scan.cols // cols)
    # As many choices of "occupied" could have been seen: a union bound over them, too.
    log = log_block_gain(top * scan.cols, nonzeros, blocks, occupied, inside) + math.log(blocks)
    return Grid(rows, cols, blocks, occupied, inside, log)
