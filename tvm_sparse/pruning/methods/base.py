"""What every pruning method offers, and the scores it may rank by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Array, Mask
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.lowering import ORDERS, lower
from tvm_sparse.pruning.layers import MATRIX, PrunableLayer, Selection, select

Criterion = Literal["magnitude", "taylor"]
Importance = Mapping[str, npt.NDArray[np.floating]]
"""Taylor importance, ``(g * w) ** 2`` summed over batches, by key, in the weight's shape."""


@dataclass(frozen=True)
class Proposal:
    """The mask a method wants for one layer (True = kept, in the weight's shape)."""

    mask: npt.NDArray[np.bool_]
    pattern: str
    wanted: float
    note: str = ""


@dataclass(frozen=True)
class Method(ABC):
    """A pruning method. Fields are its parameters; it keeps no state between steps."""

    sorts: ClassVar[Sequence[str]] = MATRIX
    structural: ClassVar[bool] = False
    """Whether the method follows channels from layer to layer, for which it traces the module."""

    @property
    def gradients(self) -> bool:
        """Whether the method needs :meth:`Pruner.accumulate` called during training."""
        return False

    @property
    def local(self) -> bool:
        """Whether the mask of each layer follows from the scores of that layer alone."""
        return False

    @property
    def columns(self) -> int | None:
        """How many neighbouring columns of a matrix are decided together, from left to right.

        ``None``: only the whole mask can be decided.
        """
        return None

    def mask_of(self, scores: Array) -> Mask | None:
        """Return the mask of some of a matrix's columns by their ``scores`` (rows, cols) alone.

        ``cols`` is a multiple of :attr:`columns`, but for the last ones of the matrix. ``None``:
        the mask depends on other columns, too.
        """
        return None

    def of(self, layer: PrunableLayer) -> Method:
        """Return the method that prunes ``layer``: this one, unless each layer has its own."""
        return self

    def exchange(self, columns: int) -> Exchange | None:
        """Return what may change places in the mask of a matrix of so many ``columns``.

        ``None``: nothing is known that would keep the pattern.
        """
        return None

    def select(self, model: nn.Module, include: Sequence[str], ignore: Sequence[str]) -> Selection:
        """Choose the layers this method prunes (see :func:`tvm_sparse.pruning.layers.select`)."""
        return select(model, include, ignore, self.sorts)

    @abstractmethod
    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return every selected parameter's mask, by key, at the fraction ``due`` of the target."""

    @abstractmethod
    def describe(self) -> str:
        """Return a phrase for reports, with the parameters."""


class MatrixMethod(Method):
    """A method that masks each layer as a matrix, by the scores of ``criterion``.

    A subclass has the fields. ``order`` is the order of a convolution's columns.
    """

    sparsity: float
    order: str
    criterion: Criterion

    def __post_init__(self) -> None:
        """Refuse parameters that describe no mask."""
        check_sparsity(self.sparsity)
        check_order(self.order)

    @property
    def gradients(self) -> bool:
        """Only Taylor scores need gradients."""
        return self.criterion == "taylor"

    @property
    def local(self) -> bool:
        """Every layer is masked by itself."""
        return True

    def scores(self, layer: PrunableLayer, importance: Importance) -> np.ndarray:
        """Return the scores of ``layer`` as a matrix."""
        return lower(scores_of(layer, self.criterion, importance), self.order)


def scores_of(
    layer: PrunableLayer, criterion: Criterion = "magnitude", importance: Importance | None = None
) -> np.ndarray:
    """Return the scores of ``layer`` in the shape of its weight, all ``>= 0``.

    ``magnitude`` is ``|w|``; ``taylor`` the accumulated ``(g * w) ** 2`` (Guo et al., Eq. 1).
    Weights that were pruned before score 0, below any other: a zero that was not pruned (or has no
    gradient, behind a dead unit) scores just above.
    """
    scores = np.abs(layer.values()) if criterion == "magnitude" else _taylor(layer, importance)
    alive = layer.alive()
    if alive is None:
        return scores
    return np.where(alive, np.maximum(scores, np.finfo(np.float32).tiny), 0)


def _taylor(layer: PrunableLayer, importance: Importance | None) -> np.ndarray:
    scores = (importance or {}).get(layer.key)
    if scores is None:
        raise InputError(
            layer.name,
            "no gradients were accumulated",
            "Taylor scores",
            "call pruner.accumulate() after backward() for some batches before step()",
        )
    return scores


def check_sparsity(sparsity: float, option: str = "sparsity") -> None:
    """Refuse a ``sparsity`` outside [0, 1]."""
    if not 0 <= sparsity <= 1:
        raise InputError(option, str(sparsity), "0 to 1 (the fraction of zeros)")


def check_order(order: str) -> None:
    """Refuse an unknown column order."""
    if order not in ORDERS:
        raise InputError("order", repr(order), " or ".join(ORDERS))
