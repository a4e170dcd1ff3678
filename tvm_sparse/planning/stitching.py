"""Whole networks put together from layers that were pruned apart, and what they lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity
from torch.utils import _pytree as pytree

from tvm_sparse.errors import InputError
from tvm_sparse.pruning.compensation.calls import Batch, attended, evaluating, run
from tvm_sparse.pruning.layers import PrunableLayer


@dataclass(frozen=True)
class Zeroed:
    """A weight with many zeros, in little memory: where others are, in bits, and those rounded."""

    shape: torch.Size
    places: np.ndarray
    values: Tensor

    @classmethod
    def of(cls, weight: Tensor) -> Zeroed:
        """Return ``weight`` so."""
        kept = weight != 0
        places = np.packbits(kept.cpu().numpy())
        return cls(weight.shape, places, weight[kept].to(torch.bfloat16))

    def whole(self) -> Tensor:
        """Return the weight, in bfloat16."""
        flags = np.unpackbits(self.places, count=self.shape.numel()).view(bool)
        kept = torch.from_numpy(flags).view(self.shape).to(self.values.device)
        return self.values.new_zeros(self.shape).masked_scatter_(kept, self.values)


class Stitched:
    """A network whose layers take pruned weights, and its outputs beside the dense ones.

    A layer may have several weights for a candidate, each fitted to other layers before it: all
    layers of a network take those of the same fit, and the fit that loses least counts.

    Parameters
    ----------
    network
        Dense; its weights are changed.
    layers, dense
        Those that take other weights, and the same of a network that stays as it is.
    batches
        Inputs on which outputs are compared.
    """

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[PrunableLayer],
        dense: Sequence[PrunableLayer],
        batches: Sequence[Batch],
    ) -> None:
        self.network, self.layers, self.batches = network, list(layers), list(batches)
        self.dense = list(dense)
        self.wanted = [outputs(network, batch) for batch in self.batches]
        if not any(self.wanted):
            raise InputError("plan", "the model returns no floats", "outputs to compare")
        self.weights: dict[tuple[int, int, int], Zeroed] = {}
        self._fits = [0]
        self._now = [(0, 0)] * len(self.layers)
        self._known: dict[tuple[int, ...], float] = {}

    def keep(self, layer: int, candidate: int, weight: Tensor, fit: int = 0) -> None:
        """Remember the weight of a layer with a candidate, in its own shape.

        ``fit`` numbers what it was fitted to: 0 is the dense network.
        """
        self.weights[fit, layer, candidate] = Zeroed.of(weight)
        if fit not in self._fits:
            self._fits.append(fit)

    def drop(self, choice: Sequence[int]) -> float:
        """Return one minus the mean cosine of outputs, with the candidates of ``choice``."""
        wanted = tuple(choice)
        if not any(wanted):
            return 0.0
        if wanted not in self._known:
            self._known[wanted] = min(self._drop(wanted, fit) for fit in self._fits)
        return self._known[wanted]

    def alone(self, layer: int, candidate: int) -> float:
        """Return the drop if only ``layer`` takes a candidate other than dense."""
        return self._drop([candidate if i == layer else 0 for i in range(len(self.layers))], 0)

    def _drop(self, choice: Sequence[int], fit: int) -> float:
        for i, candidate in enumerate(choice):
            self._put(i, candidate, fit)
        return drop_of([outputs(self.network, batch) for batch in self.batches], self.wanted)

    def _put(self, i: int, candidate: int, fit: int) -> None:
        if self._now[i] == (fit, candidate):
            return
        layer, kept = self.layers[i], self.weights.get((fit, i, candidate))
        weight = self.dense[i].weight if kept is None else kept.whole()
        with torch.no_grad():
            layer.stored.copy_(layer.own(weight))
        self._now[i] = (fit, candidate)


def drop_of(found: Sequence[list[Tensor]], wanted: Sequence[list[Tensor]]) -> float:
    """Return one minus the mean cosine of outputs to those ``wanted``; rows of each batch."""
    pairs = zip(zip(*found, strict=True), zip(*wanted, strict=True), strict=True)
    means = [
        torch.cat([similarity(a, b) for a, b in zip(*outputs, strict=True)]).mean()
        for outputs in pairs
    ]
    return max(0.0, 1.0 - float(torch.stack(means).mean()))


def similarity(found: Tensor, wanted: Tensor) -> Tensor:
    """Return the cosine of each row; rows of one number are one row together."""
    if wanted.shape[-1] == 1:
        found, wanted = found.reshape(1, -1), wanted.reshape(1, -1)
    same = (found == wanted).all(-1)
    return torch.where(same, 1.0, cosine_similarity(found, wanted, dim=-1).nan_to_num(0.0))


def outputs(model: nn.Module, batch: Batch) -> list[Tensor]:
    """Return the floats that ``model`` returns for ``batch``, as :func:`rows_of`."""
    with torch.no_grad(), evaluating(model):
        return rows_of(run(model, batch), batch)


def rows_of(returned: Any, batch: Batch) -> list[Tensor]:
    """Return the floats among what a model returned, as rows: one a sample, or one a token.

    Tokens that the batch's ``attention_mask`` leaves out have none.
    """
    return [
        _rows(leaf.detach().float(), batch)
        for leaf in pytree.tree_leaves(_plain(returned))
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel()
    ]


def _rows(tensor: Tensor, batch: Batch) -> Tensor:
    mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
    if isinstance(mask, Tensor) and tensor.dim() == 3 and mask.shape == tensor.shape[:2]:
        return attended(tensor, batch)
    return tensor.reshape(len(tensor), -1) if tensor.dim() > 1 else tensor.reshape(1, -1)


def _plain(found: Any) -> Any:
    """Return the outputs of a model of transformers as the dictionary that they are."""
    return dict(found) if hasattr(found, "keys") else found
