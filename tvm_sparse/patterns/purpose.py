"""Whether empty blocks were pruned as blocks, or are what pruning single weights leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tvm_sparse.patterns.grid import Grid
    from tvm_sparse.patterns.scan import Scan

FULL = 0.98
"""Kept blocks this full were kept as blocks."""
OVER_SPECTRUM = 2.5
OVER_MARGINS = 3.0
UNDER_MARGINS, FAR_UNDER_MARGINS = 0.9, 0.85
SAMPLED_CELLS = 2**20


def stands_apart(scan: Scan, grid: Grid) -> bool:
    """Return whether there are more empty blocks than the spectrum of the others leads to expect.

    Weights pruned one by one leave blocks with 0, 1, 2, ... nonzeros; how many are empty follows
    from those with one and two (Chao's estimator, 1984), roughly also if densities differ.
    """
    counts = scan.block_counts(grid.rows, grid.cols)
    ones, twos = int((counts == 1).sum()), int((counts == 2).sum())
    expected = ones * (ones - 1) / (2 * (twos + 1))
    return grid.blocks - grid.occupied >= OVER_SPECTRUM * expected


def beyond_margins(scan: Scan, grid: Grid, under: float = UNDER_MARGINS) -> bool:
    """Return whether there are more empty blocks than sparse rows and sparse columns explain.

    The expectation takes weights as independent, each as likely to be kept as its row and column
    say. It is taken over the first rows of large matrices. "More" is three times as many empty
    ones, or at most ``under`` times as many others.
    """
    if scan.nonzeros >= FULL * grid.inside:
        return True
    rows = max(1, SAMPLED_CELLS // scan.cols // grid.rows) * grid.rows
    density = np.multiply.outer(scan.row_count[:rows], scan.col_count / scan.nonzeros)
    np.minimum(density, 1 - 1e-9, out=density)
    np.log1p(-density, out=density)
    down = np.arange(0, len(density), grid.rows)
    across = np.arange(0, scan.cols, grid.cols)
    logs = np.add.reduceat(np.add.reduceat(density, down, axis=0), across, axis=1)
    expected = np.exp(logs)
    empty = scan.block_counts(grid.rows, grid.cols)[: len(down)] == 0
    return bool(
        empty.sum() >= OVER_MARGINS * expected.sum()
        or (~empty).sum() <= under * (1 - expected).sum()
    )
