"""Joint sparsity with mixed granularity: a fine and a coarse mask, made independently."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.lowering import lower, raise_
from tvm_sparse.patterns.ranking import kept_count
from tvm_sparse.pruning.layers import PrunableLayer, Selection
from tvm_sparse.pruning.methods.base import (
    Criterion,
    Importance,
    MatrixMethod,
    Proposal,
    check_sparsity,
    scores_of,
)


@dataclass(frozen=True)
class JointPruning(MatrixMethod):
    """Mask = vector-wise fine mask AND block-wise coarse mask (Guo et al., section III).

    The fine mask ranks magnitudes in vectors of ``K`` columns, the coarse mask sums of Taylor
    scores over blocks (Eq. 1). Their sparsities follow from the target and the mixed ratio
    (Eq. 2 and 3); both rise together under a schedule (Eq. 4 and 5).

    Parameters
    ----------
    sparsity
        Target ``s_t``. Around ``mix = 0.5`` more than that is reached, as in Table I.
    mix
        The mixed ratio ``p``: 1 is balanced sparsity, 0 block sparsity.
    block
        ``(R, S)`` of the coarse mask.
    vector
        ``K`` of the fine mask in columns; ``None`` cuts each row into ``vectors_per_row``.
    vectors_per_row
        2 is the paper's ``K = #col / 2`` (Table II), 1 its ``K = #col`` (Fig. 3).
    order
        Column order of a convolution's matrix, ``"ihw"`` (the paper) or ``"hwi"``.
    criterion
        Scores of the coarse mask: ``"taylor"`` (the paper) or ``"magnitude"``.
    """

    sparsity: float
    mix: float = 0.5
    block: tuple[int, int] = (4, 4)
    vector: int | None = None
    vectors_per_row: int = 2
    order: str = "ihw"
    criterion: Criterion = "taylor"

    def __post_init__(self) -> None:
        """Refuse parameters that describe no mask."""
        super().__post_init__()
        check_sparsity(self.mix, "mix")
        Block(*self.block)
        if self.vectors_per_row < 1 or (self.vector is not None and self.vector < 1):
            raise InputError(
                "joint pruning", f"vector {self.vector}, {self.vectors_per_row} a row", ">= 1"
            )

    @property
    def gradients(self) -> bool:
        """Taylor scores of the coarse mask need gradients; pure fine masks have no such scores."""
        return super().gradients and self.mix < 1

    @property
    def columns(self) -> int:
        """A block is decided at once."""
        return self.block[1]

    def exchange(self, columns: int) -> Exchange:
        """Weights of a vector change places inside the kept blocks."""
        return self._pattern(columns, 0).exchange

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return one joint mask a layer, both parts at the fraction ``due`` of their own target."""
        fine, coarse = (due * s for s in Joint.targets(self.sparsity, self.mix))
        return {layer.key: self._one(layer, fine, coarse, importance, due) for layer in selection}

    def _one(
        self, layer: PrunableLayer, fine: float, coarse: float, importance: Importance, due: float
    ) -> Proposal:
        magnitude = lower(scores_of(layer), self.order)
        pattern = self._pattern(magnitude.shape[1], fine)
        mask = pattern.bank.project(magnitude)
        if coarse > 0:
            mask = mask & pattern.block.project(self.scores(layer, importance), coarse)
        whole = self._whole_blocks(magnitude.shape) / magnitude.size
        note = "" if whole == 1 or coarse == 0 else f"{1 - whole:.1%} edge outside the blocks"
        return Proposal(
            raise_(mask, layer.shape, self.order), pattern.describe(), due * self.sparsity, note
        )

    def _pattern(self, columns: int, fine: float) -> Joint:
        length = self.vector or -(-columns // self.vectors_per_row)
        bank = Balanced(length, kept_count(length, fine, "joint pruning"))
        return Joint(bank, Block(*self.block))

    def _whole_blocks(self, shape: tuple[int, ...]) -> int:
        rows, cols = self.block
        return (shape[0] // rows * rows) * (shape[1] // cols * cols)

    def describe(self) -> str:
        """Return the method with its parameters."""
        vector = f"K={self.vector}" if self.vector else f"K=#col/{self.vectors_per_row}"
        block = "x".join(map(str, self.block))
        return f"joint {self.sparsity:.2%}, p={self.mix:g}, {vector}, block {block} ({self.order})"
