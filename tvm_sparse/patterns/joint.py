"""Joint sparsity: the AND of a balanced and a block mask, made independently of each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Array, Evidence, Fit, Mask, ScannedPattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.chance import probability
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.grid import Grid, best_grids
from tvm_sparse.patterns.mixture import HiddenBank, hidden_bank, joint_cost
from tvm_sparse.patterns.purpose import FAR_UNDER_MARGINS, beyond_margins, stands_apart
from tvm_sparse.patterns.scan import Scan

MANY_EMPTY = 0.1
"""With fewer empty blocks, and nothing known inside the others, there is no joint mask."""


@dataclass(frozen=True)
class Joint(ScannedPattern):
    """A fine mask (:class:`Balanced`) AND a coarse mask (:class:`Block`), after Guo et al."""

    bank: Balanced
    block: Block
    kind: ClassVar[str] = "joint"

    @staticmethod
    def targets(sparsity: float, mix: float) -> tuple[float, float]:
        """Return the fine and the coarse sparsity for a target ``sparsity`` (eqs. 2 and 3).

        ``mix`` is the paper's p: 1 is balanced sparsity only, 0 block sparsity only.
        """
        if not 0 <= mix <= 1 or not 0 <= sparsity <= 1:
            raise InputError("joint pattern", f"sparsity {sparsity}, mix {mix}", "both in 0 to 1")
        larger = max(mix, 1 - mix)
        return sparsity * mix / larger, sparsity * (1 - mix) / larger

    def project(self, scores: Array, sparsity: float | None = None) -> Mask:
        """Return the AND of both masks of the same ``scores``.

        Parameters
        ----------
        scores
            ``(rows, cols)``. The paper ranks the two masks by different scores: call
            ``bank.project(magnitudes) & block.project(taylor, coarse)`` for that.
        sparsity
            Fraction of zeros if both masks were independent; the banks give their own share, the
            blocks the rest.
        """
        if sparsity is None:
            raise InputError(self.describe(), "no sparsity", "a fraction of zeros")
        kept = self.bank.keep / self.bank.bank
        if not 0 <= sparsity <= 1 or 1 - sparsity > kept:
            raise InputError(
                self.describe(),
                f"sparsity {sparsity}",
                f"{1 - kept:.3g} (what the banks remove) to 1",
            )
        coarse = 1 - (1 - sparsity) / kept if kept else 0.0
        return self.bank.project(scores) & self.block.project(scores, coarse)

    def masks(self, kept: Mask) -> tuple[Mask, Mask]:
        """Return a fine and a coarse mask whose AND is ``kept`` ``(rows, cols)``.

        The coarse mask keeps the blocks that hold a nonzero. The fine mask of a pruned block is
        unknown: its banks are filled up to ``bank.keep``, from the left, in pruned blocks.
        """
        down = np.arange(0, kept.shape[0], self.block.rows)
        across = np.arange(0, kept.shape[1], self.block.cols)
        occupied = np.logical_or.reduceat(
            np.logical_or.reduceat(kept, down, axis=0), across, axis=1
        )
        coarse = self.block.expand(occupied, kept.shape)
        hidden = Balanced(self.bank.bank, self.bank.keep).project(2.0 * kept + ~coarse)
        return kept | (hidden & ~coarse), coarse

    @classmethod
    def find(cls, scan: Scan) -> list[Fit]:
        """Return the fit of a mask that is a balanced and a block mask at once.

        Blocks without a nonzero give the coarse mask. What the others hold must be balanced: by
        the largest count in a bank, or, where blocks cut through banks, because the counts of
        banks vary less than those of random masks would.
        """
        grid = next(iter(scan.once(best_grids)), None)
        if grid is None or grid.inside == scan.nonzeros or not stands_apart(scan, grid):
            return []
        bank = seen_bank(scan)
        lines = grid.rows >= scan.rows or grid.cols >= scan.cols
        if beyond_margins(scan, grid):
            hidden = hidden_bank(scan, grid)
            if bank is None or (hidden is not None and hidden.columns <= bank.columns):
                bank = hidden
            if bank is None and _blocks_alone(scan, grid):
                bank = HiddenBank(scan.cols, int(scan.row_count.max()), 0.0)
        elif not lines:
            return []
        return [] if bank is None else [cls._fit(scan, grid, bank)]

    @classmethod
    def _fit(cls, scan: Scan, grid: Grid, bank: HiddenBank) -> Fit:
        """Return the fit of two masks that were both found."""
        pattern = cls(Balanced(bank.columns, bank.keep), Block(grid.rows, grid.cols))
        cost = joint_cost(scan, grid, bank)
        banks = scan.rows * -(-scan.cols // bank.columns)
        padding = 1 - scan.nonzeros / (cost.flops / 2)
        chance = probability(min(grid.log, bank.log))
        evidence = Evidence("bank", banks, banks, None, padding, chance)
        return Fit(pattern, scan.sparsity, evidence, cost=cost)

    @classmethod
    def example(cls) -> Joint:
        """Return 4 of 16 in blocks of 16 x 16."""
        return cls(Balanced.example(), Block.example())

    def units(self) -> tuple[int, int]:
        """Return the extents of a block."""
        return self.block.units()

    @property
    def exchange(self) -> Exchange:
        """Weights of a bank change places inside the kept blocks."""
        return Exchange(pool=self.bank.bank, blocks=self.units())

    def describe(self) -> str:
        """Return ``"joint of balanced <k> of <B> and block <R>x<S>"``."""
        return f"joint of {self.bank.describe()} and {self.block.describe()}"


def seen_bank(scan: Scan) -> HiddenBank | None:
    """Return the banks that hold whether or not blocks are looked at."""
    for fit in scan.once(Balanced.find):
        if isinstance(fit.pattern, Balanced) and fit.evidence.exact:
            return HiddenBank(fit.pattern.bank, fit.pattern.keep, math.log(fit.evidence.chance))
    return None


def _blocks_alone(scan: Scan, grid: Grid) -> bool:
    """Return whether the blocks make a joint mask, though inside only the longest row is known."""
    many = grid.blocks - grid.occupied >= MANY_EMPTY * grid.blocks
    return many and beyond_margins(scan, grid, FAR_UNDER_MARGINS) and not scan.once(Block.find)
