"""The pruner: attaches masks to a model and renews them step by step."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.distributed import broadcast_masks, sum_importance
from tvm_sparse.pruning.layers import PrunableLayer
from tvm_sparse.pruning.masks import (
    WeightMask,
    attach_mask,
    original_parameter,
    squash_mask,
    untie,
)
from tvm_sparse.pruning.methods.base import Method, Proposal
from tvm_sparse.pruning.report import LayerReport, Report
from tvm_sparse.pruning.schedule import OneShot, Schedule


class Pruner:
    """Prunes ``model`` in place by ``method``, following ``schedule``.

    The chosen weights get a mask as a torch parametrization (all ones at first), so that training
    keeps zeros at zero under autocast, ``torch.compile`` and data-parallel training. A weight that
    was pruned once stays pruned, and later steps rank it last.

    Parameters
    ----------
    model
        Any module. Create the pruner before ``torch.compile`` or ``DistributedDataParallel``, and
        give the unwrapped model.
    method
        One of :mod:`tvm_sparse.pruning.methods`.
    schedule
        When and how far :meth:`step` prunes.
    include, ignore
        Globs over the fully qualified names of layers; ``ignore`` wins.

    Examples
    --------
    >>> pruner = Pruner(model, BalancedPruning(0.9), schedule=Levels([0.75, 0.9]))
    >>> for _ in range(2):
    ...     pruner.step()
    ...     fine_tune(model)
    >>> pruner.squash_mask()
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        *,
        schedule: Schedule | None = None,
        include: Sequence[str] = ("*",),
        ignore: Sequence[str] = (),
    ) -> None:
        self.model, self.method = model, method
        self.schedule: Schedule = OneShot() if schedule is None else schedule
        self.selection = method.select(model, include, ignore)
        self._parameters = (*self.selection.layers, *self.selection.companions)
        self._masks: dict[str, WeightMask] = {
            layer.key: attach_mask(layer.module, layer.parameter) for layer in self._parameters
        }
        self._importance: dict[str, torch.Tensor] = {}
        self._step = 0
        self.report: Report | None = None

    @property
    def masks(self) -> dict[str, torch.Tensor]:
        """The masks by parameter name (``"head.weight"``), bool, True = kept, as they are now."""
        return {key: mask.mask for key, mask in self._masks.items()}

    def accumulate(self, grad_scale: float = 1.0) -> bool:
        """Add this batch's Taylor importance ``(g * w) ** 2``; call it after ``backward()``.

        A batch with a gradient that is not finite does not count (mixed precision overflows now
        and then, and the optimizer's step is skipped too); the answer says whether it did.

        Parameters
        ----------
        grad_scale
            What the loss was multiplied by (``GradScaler.get_scale()``), unless the gradients are
            unscaled already.
        """
        taylor = {}
        for layer in self.selection:
            gradient = original_parameter(layer.module, layer.parameter).grad
            if gradient is not None:
                gradient = layer.own(gradient.float() / grad_scale)
                taylor[layer.key] = (gradient * layer.weight.float()).square()
        if not all(torch.isfinite(score).all() for score in taylor.values()):
            return False
        for key, score in taylor.items():
            before = self._importance.get(key)
            self._importance[key] = score if before is None else before + score
        return True

    def step(self) -> Report | None:
        """Prune if the schedule says so; return what was done, ``None`` if nothing was due.

        In data-parallel training every process calls it; the first one decides and the others
        take over its masks.
        """
        due = self.schedule.due(self._step)
        self._step += 1
        if due is None:
            return None
        sum_importance(self._importance)
        importance = {name: t.cpu().numpy() for name, t in self._importance.items()}
        proposals = self.method.propose(self.selection, due, importance)
        self._narrow_all(proposals)
        broadcast_masks(self.masks)
        self._importance.clear()
        self.report = self._reported(proposals)
        return self.report

    def adopt(self, layer: PrunableLayer, mask: np.ndarray, weight: torch.Tensor) -> None:
        """Take over a ``mask`` of ``layer`` and a ``weight`` that was fitted to it.

        Both are in the shape of the layer; :func:`.one_shot` is who calls it.
        """
        self._narrow(layer, mask)
        with torch.no_grad():
            original_parameter(layer.module, layer.parameter).copy_(layer.own(weight))

    def finish(
        self, proposals: Mapping[str, Proposal], skipped: Mapping[str, str], note: str = ""
    ) -> Report:
        """Report ``proposals``, whose masks were adopted, and the layers ``skipped`` meanwhile."""
        self.selection = replace(self.selection, skipped={**self.selection.skipped, **skipped})
        self._narrow_all(proposals)
        self.report = replace(self._reported(proposals), note=note)
        return self.report

    def _narrow_all(self, proposals: Mapping[str, Proposal]) -> None:
        for layer in self._parameters:
            if layer.key in proposals:
                self._narrow(layer, proposals[layer.key].mask)

    def _narrow(self, layer: PrunableLayer, wanted: np.ndarray) -> None:
        """Keep what was kept and is kept by ``wanted``, too."""
        mask = self._masks[layer.key].mask
        mask &= layer.own(torch.tensor(wanted, device=mask.device))

    def squash_mask(self) -> nn.Module:
        """Write the zeros into the weights, remove the masks, and return the model.

        A pruned weight that another module shares, which the masks never touched, is untied.
        """
        for layer in self._parameters:
            untie(self.model, layer.module, layer.parameter)
            squash_mask(layer.module, layer.parameter)
        return self.model

    def detach(self, keep: Container[int]) -> None:
        """Remove all masks but those whose ``id`` is in ``keep``."""
        for layer in self._parameters:
            if id(self._masks[layer.key]) not in keep:
                squash_mask(layer.module, layer.parameter)

    def state_dict(self) -> dict[str, Any]:
        """Return what resuming needs beside the model's own state (which holds the masks)."""
        return {
            "method": repr(self.method),
            "step": self._step,
            "masks": {name: mask.clone() for name, mask in self.masks.items()},
            "importance": {name: t.clone() for name, t in self._importance.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken, with the same method and layers."""
        if state["method"] != repr(self.method):
            raise InputError("pruner state", f"was saved by {state['method']}", repr(self.method))
        if set(state["masks"]) != set(self._masks):
            odd = sorted(set(state["masks"]) ^ set(self._masks))
            raise InputError(
                "pruner state",
                f"other layers: {', '.join(odd[:3])}",
                "the same include and ignore",
            )
        self._step = int(state["step"])
        for name, mask in state["masks"].items():
            self._masks[name].mask.copy_(mask)
        device = {name: mask.mask.device for name, mask in self._masks.items()}
        self._importance = {n: t.to(device[n]).clone() for n, t in state["importance"].items()}

    def _reported(self, proposals: Mapping[str, Proposal]) -> Report:
        layers = []
        for layer in self.selection:
            if layer.key not in proposals:
                continue
            proposal, mask = proposals[layer.key], self._masks[layer.key].mask
            layers.append(
                LayerReport(
                    layer.label,
                    layer.shape,
                    proposal.pattern,
                    proposal.wanted,
                    1.0 - int(mask.sum()) / mask.numel(),
                    mask.numel(),
                    proposal.note,
                )
            )
        return Report(self.method.describe(), tuple(layers), self.selection.skipped)
