"""Prune a trained network to rising sparsities, fine-tuning after each."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from tvm_sparse.demo.training import Progress, Split, accuracy, train
from tvm_sparse.pruning.masks import squashed_copy
from tvm_sparse.pruning.methods.balanced import BalancedPruning
from tvm_sparse.pruning.methods.base import Method
from tvm_sparse.pruning.pruner import Pruner
from tvm_sparse.pruning.report import Report
from tvm_sparse.pruning.schedule import Levels

STEPS = (0.75, 0.9)
BANK = 16
FIRST_LAYER = "features.0"
"""One input channel: its 9 columns are shorter than a bank. It stays dense (0.03 % of weights)."""


@dataclass(frozen=True)
class StepResult:
    """The network after one step.

    ``wanted`` and ``sparsity`` are fractions of zeros over the pruned layers, ``accuracy`` the test
    accuracy after fine-tuning and ``accuracy_untuned`` before it. ``model`` is a copy with plain
    weights (zeros written in, no masks), ready to export.
    """

    wanted: float
    sparsity: float
    accuracy_untuned: float
    accuracy: float
    report: Report
    model: nn.Module


def prune_iteratively(
    model: nn.Module,
    data: Split,
    steps: Sequence[float] = STEPS,
    *,
    method: Method | None = None,
    epochs: int = 6,
    lr: float = 2e-3,
    seed: int = 0,
    progress: Progress | None = None,
    ignore: Sequence[str] = (FIRST_LAYER,),
) -> list[StepResult]:
    """Prune ``model`` in place to each sparsity of ``steps`` and fine-tune after each.

    Parameters
    ----------
    model
        A trained network; afterwards it has the zeros of the last step in plain weights.
    steps
        Rising fractions of zeros over the pruned layers.
    method
        Whose target is the last of ``steps``. By default balanced sparsity with banks of 16 input
        channels of one tap (order ``"hwi"``). 75 % is 4 of 16 in every layer. 90 % lies between
        2 of 16 (87.5 %) and 1 of 16 (93.75 %): each layer takes one of the two so that the pruned
        layers together reach 90 % (``rounding="reach"``).
    epochs, lr, seed
        Fine-tuning after each step, as in :func:`tvm_sparse.demo.training.train`.
    progress
        Told of each epoch of fine-tuning.
    """
    method = method or BalancedPruning(steps[-1], bank=BANK, order="hwi", rounding="reach")
    pruner = Pruner(model, method, schedule=Levels(steps), ignore=ignore)
    results = []
    for number, wanted in enumerate(steps):
        _gather_scores(pruner, model, data, seed)
        report = pruner.step()
        assert report is not None
        untuned = accuracy(model, data)
        what = f"fine-tuning at {wanted:.0%}"
        train(model, data, epochs, lr=lr, seed=seed + number + 1, progress=progress, what=what)
        tuned, plain = accuracy(model, data), squashed_copy(model).eval()
        results.append(StepResult(wanted, report.sparsity, untuned, tuned, report, plain))
    pruner.squash_mask()
    return results


def _gather_scores(pruner: Pruner, model: nn.Module, data: Split, seed: int) -> None:
    """Run one epoch at learning rate zero to collect Taylor scores, if the method ranks by them."""
    if pruner.method.gradients:
        frozen = copy.deepcopy(model.state_dict())
        train(model, data, 1, lr=1e-12, seed=seed, after_backward=pruner.accumulate)
        model.load_state_dict(frozen)
