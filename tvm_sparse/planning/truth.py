"""What networks lose in truth: some are pruned as users prune them, and correct what is predicted.

A stitched network is pruned layer by layer against two networks only. :func:`.one_shot` prunes each
layer behind those that are pruned already, and loses less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.knapsack import monotone
from tvm_sparse.planning.losses import STEPS, samples
from tvm_sparse.planning.stitching import Stitched, drop_of, outputs
from tvm_sparse.pruning.compensation.calls import Batch, parted
from tvm_sparse.pruning.compensation.layer import Compensation
from tvm_sparse.pruning.compensation.state import State
from tvm_sparse.pruning.copies import copied
from tvm_sparse.pruning.layers import Selection, select
from tvm_sparse.pruning.methods.dense import KeepAll
from tvm_sparse.pruning.methods.layers import LayerPruning
from tvm_sparse.pruning.one_shot import prune_beside
from tvm_sparse.pruning.pruner import Pruner

MOST = 24
"""Networks that are pruned."""

WEIGHTS = 2 * 10**8
"""Weights that are pruned in all of them together: a large network has few of them."""

LEAST = 3
"""Networks that are pruned however large they are."""


class Truth:
    """Drops of networks that were pruned in one shot, and of stitched ones, corrected by those.

    Parameters
    ----------
    network, selection
        Dense, and its layers that may be pruned.
    batches
        Of them those are pruned with that no network is judged on (:func:`.parted`).
    candidates
        What a choice numbers.
    stitched
        The same network, stitched together, with what it is judged on.
    """

    def __init__(
        self,
        network: nn.Module,
        selection: Selection,
        batches: Sequence[Batch],
        candidates: Sequence[Candidate],
        stitched: Stitched,
    ) -> None:
        self.network, self.candidates, self.stitched = network, candidates, stitched
        self.keys = [layer.key for layer in selection]
        weights = sum(layer.weight.numel() for layer in selection)
        self.left = max(LEAST, min(MOST, WEIGHTS // weights))
        self.fitted = samples(parted(batches)[0])
        self._pruned: dict[tuple[int, ...], float] = {}

    def drop(self, choice: Sequence[int]) -> float:
        """Return the drop of a choice: of a network that is pruned, as long as some are left."""
        wanted = tuple(choice)
        if wanted not in self._pruned:
            if not any(wanted):
                return 0.0
            if not self.left:
                return self._corrected(self.stitched.drop(wanted))
            self.left -= 1
            self._pruned[wanted] = self._drop(wanted)
        return self._pruned[wanted]

    def _drop(self, choice: tuple[int, ...]) -> float:
        weights = [layer.stored for layer in select(self.network, ("*",), ())]
        own = copied(self.network, weights)
        methods = [self.candidates[c].method or KeepAll() for c in choice]
        method = LayerPruning(dict(zip(self.keys, methods, strict=True)))
        compensation = Compensation(method, steps=STEPS, swaps=0, single=True)
        state, pruner = State(None, {}), Pruner(own, method)
        prune_beside(self.network, own, self.fitted, pruner, compensation, state)
        return drop_of([outputs(own, b) for b in self.stitched.batches], self.stitched.wanted)

    def _corrected(self, stitched: float) -> float:
        """Return what one shot loses where a stitched network loses ``stitched``.

        It is read between those that were pruned; beyond, by the ratio of the last.
        """
        pairs = sorted((self.stitched.drop(c), drop) for c, drop in self._pruned.items())
        places, drops = [0.0, *(p[0] for p in pairs)], [0.0, *monotone([p[1] for p in pairs])]
        if stitched <= places[-1]:
            return float(np.interp(stitched, places, drops))
        return min(1.0, stitched * drops[-1] / places[-1] if places[-1] else stitched)
