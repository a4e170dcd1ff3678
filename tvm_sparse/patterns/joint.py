"""Joint sparsity: the AND of a balanced and a block mask, made independently of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Array, Fit, Mask, Pattern
from tvm_sparse.patterns.block import Block


@dataclass(frozen=True)
class Joint(Pattern):
    """A fine mask (:class:`Balanced`) AND a coarse mask (:class:`Block`), after Guo et al."""

    bank: Balanced
    block: Block
    kind: ClassVar[str] = "joint"

    @staticmethod
    def shares(sparsity: float, mix: float) -> tuple[float, float]:
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

    @classmethod
    def detect(cls, weight: Array) -> Fit | None:
        raise NotImplementedError

    def describe(self) -> str:
        """Return ``"joint of balanced <k> of <B> and block <R>x<S>"``."""
        return f"joint of {self.bank.describe()} and {self.block.describe()}"
