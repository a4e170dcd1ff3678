"""Sets of channels that are removed together: what they touch and how important they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.ranking import keep_largest
from tvm_sparse.pruning.layers import PrunableLayer, Selection, sort_of
from tvm_sparse.pruning.structure.channels import ChannelGroup
from tvm_sparse.pruning.unmaskable import why_not

Norm = Literal["l1", "l2", "fpgm"]
NORMS = ("l1", "l2", "fpgm")


@dataclass(frozen=True)
class ChannelSet:
    """One set of channels to remove together.

    ``rows`` lose whole rows (the layers that make or pass them on), ``columns`` the matching
    inputs (the layers that read them), ``vectors`` the matching entries (biases, batch norms).
    """

    rows: tuple[PrunableLayer, ...]
    columns: tuple[PrunableLayer, ...]
    vectors: tuple[PrunableLayer, ...]

    @property
    def count(self) -> int:
        """How many channels there are."""
        return self.rows[0].shape[0]

    @property
    def name(self) -> str:
        """The layers that make the channels."""
        return ", ".join(layer.name for layer in self.rows)

    def masks(self, keep: np.ndarray) -> dict[str, np.ndarray]:
        """Return the mask of every parameter, by key, when the channels ``keep`` (bool) stay."""
        masks = {}
        for layer in (*self.rows, *self.vectors):
            column = keep.reshape(-1, *[1] * (len(layer.shape) - 1))
            masks[layer.key] = np.broadcast_to(column, layer.shape)
        inputs = {}
        for layer in self.columns:
            # A flattened plane gives each channel several neighbouring columns of a linear layer.
            row = np.repeat(keep, layer.shape[1] // len(keep))
            row = row.reshape(1, -1, *[1] * (len(layer.shape) - 2))
            inputs[layer.key] = np.broadcast_to(row, layer.shape)
        return combine([masks, inputs])

    def why_not(self) -> str:
        """Return why the channels cannot be masked in one of their layers, ``""`` if they can."""
        for layer in (*self.rows, *self.columns, *self.vectors):
            if reason := why_not(layer.module, layer.parameter):
                return f"in {layer.key}: {reason}"
        return ""

    def filters(self) -> list[np.ndarray]:
        """Return, a maker each, the weights that make the channels, ``(count, weights)``."""
        return [_weight(layer).reshape(self.count, -1) for layer in self.rows]

    def readers(self) -> list[np.ndarray]:
        """Return, a consumer each, the weights that read the channels, ``(count, weights)``."""
        return [
            np.moveaxis(_weight(layer).reshape(layer.shape[0], self.count, -1), 1, 0).reshape(
                self.count, -1
            )
            for layer in self.columns
        ]


def channels_of(group: ChannelGroup, modules: Mapping[str, nn.Module]) -> ChannelSet:
    """Return the parameters that lose a channel together with ``group``."""

    def layer(name: str, parameter: str = "weight") -> PrunableLayer:
        return PrunableLayer(name, modules[name], sort_of(modules[name]) or "norm", parameter)

    makers = [*group.producers, *group.depthwise]
    vectors = [layer(name, "bias") for name in makers if modules[name].bias is not None]
    vectors += [layer(name, parameter) for name in group.norms for parameter in ("weight", "bias")]
    return ChannelSet(
        tuple(layer(name) for name in makers),
        tuple(layer(name) for name in group.consumers),
        tuple(vectors),
    )


def filter_scores(matrices: Sequence[np.ndarray], norm: Norm) -> np.ndarray:
    """Return how important each channel is, float64 ``(channels,)``.

    Parameters
    ----------
    matrices
        The channel's weights in every tied layer, each ``(channels, weights)``.
    norm
        ``"l1"`` and ``"l2"`` are norms over all of them; ``"fpgm"`` sums a filter's Euclidean
        distances to the others (small near the geometric median), added up over the layers.
        Channels that are zero already score 0 and do not count as others.
    """
    if norm == "fpgm":
        return np.sum([_distances(matrix) for matrix in matrices], axis=0)
    flat = np.concatenate(matrices, axis=1)
    return np.abs(flat).sum(axis=1) if norm == "l1" else np.sqrt((flat**2).sum(axis=1))


def keep_channels(scores: np.ndarray, count: int) -> np.ndarray:
    """Return which channels stay (bool): the ``count`` best, at least one."""
    return keep_largest(scores, max(count, 1))


def combine(parts: Iterable[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the AND of all masks of each parameter (a layer loses both rows and columns)."""
    combined: dict[str, np.ndarray] = {}
    for masks in parts:
        for key, mask in masks.items():
            combined[key] = combined[key] & mask if key in combined else mask
    return combined


def touched(
    sets: Iterable[ChannelSet],
) -> tuple[dict[str, PrunableLayer], dict[str, PrunableLayer]]:
    """Return the weights and the vectors that ``sets`` mask, each once, by key."""
    weights: dict[str, PrunableLayer] = {}
    vectors: dict[str, PrunableLayer] = {}
    for channels in sets:
        weights.update({layer.key: layer for layer in (*channels.rows, *channels.columns)})
        vectors.update({layer.key: layer for layer in channels.vectors})
    return weights, vectors


def check_norm(norm: str) -> None:
    """Refuse an unknown norm."""
    if norm not in NORMS:
        raise InputError("norm", repr(norm), " or ".join(NORMS))


@dataclass(frozen=True)
class ChannelSelection(Selection):
    """A selection together with the sets of channels that can be removed."""

    sets: tuple[ChannelSet, ...] = ()


def _weight(layer: PrunableLayer) -> np.ndarray:
    return layer.values().astype(np.float64)


def _distances(filters: np.ndarray) -> np.ndarray:
    alive = filters.any(axis=1)
    scores = np.zeros(len(filters))
    living = filters[alive]
    squares = (living**2).sum(axis=1)
    between = squares[:, None] + squares - 2 * living @ living.T
    scores[alive] = np.sqrt(np.maximum(between, 0)).sum(axis=1)
    return scores
