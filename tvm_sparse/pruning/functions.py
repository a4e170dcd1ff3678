"""One call a method: prune a model once and get masks and report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn

from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning.deprune.method import DEPrune, Part, Variant
from tvm_sparse.pruning.deprune.recalibration import Alpha
from tvm_sparse.pruning.methods.balanced import BalancedPruning, Rounding
from tvm_sparse.pruning.methods.base import Criterion, Method
from tvm_sparse.pruning.methods.channels import Norm
from tvm_sparse.pruning.methods.filters import FilterPruning, Rank
from tvm_sparse.pruning.methods.joint import JointPruning
from tvm_sparse.pruning.methods.projection import PatternPruning, Scope, UnstructuredPruning
from tvm_sparse.pruning.pruner import Pruner

Losses = Iterable[torch.Tensor]
ALL = ("*",)


def prune(
    model: nn.Module,
    method: Method,
    *,
    losses: Losses = (),
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Prune ``model`` once by ``method`` and return the pruner, with its masks and report.

    The masks stay attached, so that the model can be fine-tuned; ``squash_mask()`` of the result
    writes the zeros into plain weights.

    Parameters
    ----------
    losses
        Only for Taylor scores: losses of some batches, one after the other, for example
        ``(criterion(model(x), y) for x, y in loader)``. The gradients are cleared afterwards.
    include, ignore
        Globs over the fully qualified names of layers; ``ignore`` wins.
    """
    pruner = Pruner(model, method, include=include, ignore=ignore)
    for loss in losses:
        loss.backward()
        pruner.accumulate()
        model.zero_grad()
    pruner.step()
    return pruner


def balanced(
    model: nn.Module,
    sparsity: float = 0.75,
    *,
    bank: int = 16,
    order: str = "hwi",
    rounding: Rounding = "nearest",
    share: int = 1,
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Keep equally many weights in every bank (see :class:`.methods.balanced.BalancedPruning`)."""
    method = BalancedPruning(sparsity, bank, order, rounding, share=share)
    return prune(model, method, include=include, ignore=ignore)


def n_m(
    model: nn.Module,
    n: int = 2,
    m: int = 4,
    *,
    order: str = "hwi",
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Keep ``n`` of every ``m`` weights: balanced sparsity with banks of ``m``."""
    return prune(model, n_m_method(n, m, order), include=include, ignore=ignore)


def block(
    model: nn.Module,
    sparsity: float = 0.75,
    *,
    rows: int = 16,
    cols: int = 1,
    order: str = "hwi",
    criterion: Criterion = "magnitude",
    losses: Losses = (),
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Zero the least important ``rows`` x ``cols`` blocks (see :class:`.PatternPruning`)."""
    method = block_method(sparsity, rows, cols, order, criterion)
    return prune(model, method, losses=losses, include=include, ignore=ignore)


def joint(
    model: nn.Module,
    sparsity: float = 0.7,
    *,
    mix: float = 0.5,
    block: tuple[int, int] = (4, 4),
    vector: int | None = None,
    vectors_per_row: int = 2,
    order: str = "ihw",
    criterion: Criterion = "taylor",
    losses: Losses = (),
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Combine a fine and a coarse mask (see :class:`.methods.joint.JointPruning`)."""
    method = JointPruning(sparsity, mix, block, vector, vectors_per_row, order, criterion)
    return prune(model, method, losses=losses, include=include, ignore=ignore)


def unstructured(
    model: nn.Module,
    sparsity: float = 0.75,
    *,
    scope: Scope = "layer",
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Zero the smallest weights anywhere (see :class:`.UnstructuredPruning`)."""
    return prune(model, UnstructuredPruning(sparsity, scope), include=include, ignore=ignore)


def filters(
    model: nn.Module,
    sparsity: float = 0.5,
    *,
    norm: Norm = "l2",
    rank: Rank = "outputs",
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Remove whole channels (see :class:`.methods.filters.FilterPruning`)."""
    return prune(model, FilterPruning(sparsity, norm, rank), include=include, ignore=ignore)


def deprune(
    model: nn.Module,
    depthwise: float = 0.75,
    pointwise: float = 0.5,
    *,
    variant: Variant = "DEPrune-B",
    alpha: Alpha | None = None,
    align: tuple[Part, ...] = ("depthwise",),
    norm: Norm = "l2",
    include: Sequence[str] = ALL,
    ignore: Sequence[str] = (),
) -> Pruner:
    """Prune depthwise separable convolutions (see :class:`.deprune.method.DEPrune`)."""
    method = DEPrune(depthwise, pointwise, variant, alpha, align, norm)
    return prune(model, method, include=include, ignore=ignore)


def n_m_method(n: int = 2, m: int = 4, order: str = "hwi") -> BalancedPruning:
    """Return the method behind :func:`n_m`."""
    return BalancedPruning(1 - n / max(m, 1), m, order)


def block_method(
    sparsity: float = 0.75,
    rows: int = 16,
    cols: int = 1,
    order: str = "hwi",
    criterion: Criterion = "magnitude",
) -> PatternPruning:
    """Return the method behind :func:`block`."""
    return PatternPruning(Block(rows, cols), sparsity, order, criterion)
