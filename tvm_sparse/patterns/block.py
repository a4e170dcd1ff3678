"""Block sparsity: whole blocks of the weight matrix are zero, the others are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.chance import probability
from tvm_sparse.patterns.cost import Cost, modelled
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.grid import Grid, best_grids
from tvm_sparse.patterns.purpose import beyond_margins
from tvm_sparse.patterns.ranking import checked_scores, keep_largest, kept_count
from tvm_sparse.patterns.scan import Scan

NEAR_MISS = 0.05
"""A near miss may have this fraction of kept blocks that are at most half full."""
BLOCK_INDEX_BITS = 32


@dataclass(frozen=True)
class Block(ScannedPattern):
    """Blocks of ``rows`` x ``cols`` are all zero or kept; any extents, also whole rows or columns.

    Blocks are aligned to the top left corner. Where the extents do not divide the matrix, something
    is left at its right and bottom edge. :meth:`project` never prunes it (Guo et al., section
    III-B); it may be zero in a detected mask.
    """

    rows: int
    cols: int
    kind: ClassVar[str] = "block"

    def __post_init__(self) -> None:
        """Refuse extents that describe no block."""
        if self.rows < 1 or self.cols < 1:
            raise InputError("block pattern", f"{self.rows} x {self.cols}", "extents >= 1")

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the mask that keeps the blocks with the largest sums of ``scores``.

        Parameters
        ----------
        scores
            ``(rows, cols)``; the joint paper sums first-order Taylor scores ``(g * w) ** 2`` (eq.
            1), block pruning by magnitude sums ``|w|`` or ``w ** 2``.
        sparsity
            Fraction of the whole blocks to zero, rounded to nearest.
        """
        scores = checked_scores(scores, self.describe())
        if sparsity is None:
            raise InputError(self.describe(), "no sparsity", "a fraction of zero blocks")
        down, across = scores.shape[0] // self.rows, scores.shape[1] // self.cols
        whole = scores[: down * self.rows, : across * self.cols]
        tiles = whole.reshape(down, self.rows, across, self.cols)
        # float64 sums: fp16 scores of a large block would overflow.
        sums = tiles.sum(axis=(1, 3), dtype=np.float64)
        keep = kept_count(sums.size, sparsity, self.describe())
        kept = keep_largest(sums.reshape(-1), keep).reshape(sums.shape)
        mask = np.ones(scores.shape, bool)
        mask[: whole.shape[0], : whole.shape[1]] = self.expand(kept, whole.shape)
        return mask

    def expand(self, blocks: Mask, shape: tuple[int, int]) -> Mask:
        """Return flags a block ``(ceil(rows / R), ceil(cols / S))`` as flags a weight ``shape``."""
        wide = np.repeat(np.repeat(blocks, self.rows, axis=0), self.cols, axis=1)
        return wide[: shape[0], : shape[1]]

    @classmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the block extents that the empty blocks of ``scan`` single out.

        A block follows the pattern if it is empty or more than half full.
        """
        fits = []
        for grid in scan.once(best_grids):
            if 2 * scan.nonzeros <= (1 - NEAR_MISS) * grid.inside:
                continue
            counts = scan.block_counts(grid.rows, grid.cols)
            broken = (counts > 0) & (2 * counts <= block_sizes(scan, grid.rows, grid.cols))
            wrong = int(np.count_nonzero(broken))
            if wrong > NEAR_MISS * grid.occupied or not beyond_margins(scan, grid):
                continue
            first = divmod(int(broken.argmax()), counts.shape[1])
            evidence = Evidence(
                "block",
                grid.blocks - wrong,
                grid.blocks,
                f"block row {first[0]}, block column {first[1]}" if wrong else None,
                1 - scan.nonzeros / grid.inside,
                probability(grid.log),
            )
            cost = block_cost(scan, grid)
            fits.append(Fit(cls(grid.rows, grid.cols), scan.sparsity, evidence, cost=cost))
        return fits

    @classmethod
    def example(cls) -> Block:
        """Return blocks of 16 x 16."""
        return cls(16, 16)

    def units(self) -> tuple[int, int]:
        """Return the extents of a block."""
        return self.rows, self.cols

    @property
    def exchange(self) -> Exchange:
        """Blocks of the same rows change places."""
        return Exchange(self.rows, width=self.cols)

    def describe(self) -> str:
        """Return ``"block <rows>x<cols>"``."""
        return f"block {self.rows}x{self.cols}"


def block_sizes(scan: Scan, rows: int, cols: int) -> np.ndarray:
    """Return the weights of every block, less at the right and bottom edge."""
    heights = np.minimum(rows, scan.rows - np.arange(0, scan.rows, rows))
    widths = np.minimum(cols, scan.cols - np.arange(0, scan.cols, cols))
    return np.multiply.outer(heights, widths)


def block_cost(scan: Scan, grid: Grid) -> Cost:
    """Return the modelled cost of the kept blocks, stored densely; R rows share each load."""
    bits = grid.occupied * BLOCK_INDEX_BITS
    return modelled(scan.cells, grid.inside, bits, scan.itemsize, 1 / grid.rows)
