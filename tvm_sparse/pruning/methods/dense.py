"""No pruning: a layer of a plan that stays dense."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_sparse.pruning.layers import Selection
from tvm_sparse.pruning.methods.base import Importance, Method, Proposal


@dataclass(frozen=True)
class KeepAll(Method):
    """Keep every weight of a layer.

    :func:`.one_shot` adapts its weights all the same: they make up for what the layers before it
    lost.
    """

    @property
    def local(self) -> bool:
        """Every layer is masked by itself."""
        return True

    def propose(
        self, selection: Selection, due: float, importance: Importance
    ) -> dict[str, Proposal]:
        """Return masks without zeros."""
        return {
            layer.key: Proposal(np.ones(layer.shape, bool), "dense", 0.0) for layer in selection
        }

    def describe(self) -> str:
        """Return that nothing is pruned."""
        return "dense"
