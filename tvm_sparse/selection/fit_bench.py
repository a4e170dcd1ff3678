"""Where costs are fitted: small layers, and the times of their candidates beside the dense one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm.target import Target

from tvm_sparse.base.numerics import FLOAT32, samples
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidate
from tvm_sparse.selection.measure import Data, measure

ROWS, SIDE = 128, 512
"""Rows, columns and features of the linear layer that is timed: it stays in the second cache."""

ROUNDS_EACH = 60
"""Turns of each operator: the best of them meets a moment without noise."""

Measure = Callable[[dict[str, Candidate], Contraction, np.ndarray], dict[str, float]]
"""Candidates by name, their contraction and weight -> times."""


@dataclass(frozen=True)
class Bench:
    """Where candidates are timed, and by what."""

    target: Target
    time: Measure

    def penalties(
        self, c: Contraction, matrix: np.ndarray, candidates: list[Candidate]
    ) -> dict[str, float]:
        """Return what a multiply-add of each candidate costs, relative to the dense operator's."""
        functions = {found.name: found for found in candidates}
        baseline = dense_candidate(c, self.target)
        times = self.time({baseline.name: baseline, **functions}, c, matrix)
        dense = times[baseline.name]
        return {name: times[name] / dense / found.work for name, found in functions.items()}


def timer(target: Target) -> Measure:
    """Return how candidates are timed on this machine."""

    def time(
        candidates: dict[str, Candidate], c: Contraction, matrix: np.ndarray
    ) -> dict[str, float]:
        x = samples(np.random.default_rng(0), c.input_shape, c.dtype)

        def data(name: str) -> Data:
            arrays = candidates[name].format.encode(matrix)
            return Data(x, list(arrays.values()), c.output_shape, c.out_dtype)

        functions = {name: found.func for name, found in candidates.items()}
        return measure(functions, data, target, rounds=ROUNDS_EACH)

    return time


def linear() -> Contraction:
    """Return the linear layer that is timed."""
    return Contraction((ROWS,), SIDE, SIDE)


def plane(side: int, channels: int) -> Contraction:
    """Return a 3x3 convolution of stride 1."""
    ones, padded = (1, 1), (side + 2, side + 2)
    return Contraction((1, side, side), channels, channels, (3, 3), ones, ones, padded)


def weight(kept: np.ndarray) -> np.ndarray:
    """Return random weights where ``kept``."""
    values = samples(np.random.default_rng(1), kept.shape, FLOAT32.weight) + 3
    return np.where(kept, values, 0).astype(FLOAT32.weight)
