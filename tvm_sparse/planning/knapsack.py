"""One candidate a layer, the least loss within a budget: a multiple-choice knapsack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

CELLS = 1 << 14
"""Cells of the grid between the cheapest choice and the dearest."""


class Knapsack:
    """The dynamic program over all budgets at once.

    Costs above the cheapest candidate of each layer are rounded up to cells of a grid. On the grid
    the choice is exact; a choice never costs more than its budget.

    Parameters
    ----------
    costs, losses
        For each layer an array (candidates): its cost (microseconds, bytes) and its loss with each.
    cells
        Of the grid; costs that are multiples of a cell are not rounded.
    """

    def __init__(
        self, costs: Sequence[Numbers], losses: Sequence[Numbers], cells: int = CELLS
    ) -> None:
        self.costs = [np.asarray(cost, np.float64) for cost in costs]
        self.lowest = sum(float(cost.min()) for cost in self.costs)
        self.highest = sum(float(cost.max()) for cost in self.costs)
        self.cell = (self.highest - self.lowest) / cells or 1.0
        self._steps = [_rounded_up((cost - cost.min()) / self.cell) for cost in self.costs]
        self._least = np.zeros(1 + sum(int(step.max()) for step in self._steps))
        self._taken = [
            self._add(step, np.asarray(loss, np.float64))
            for step, loss in zip(self._steps, losses, strict=True)
        ]

    def _add(self, steps: npt.NDArray[np.int64], losses: Numbers) -> npt.NDArray[np.int16]:
        """Let one more layer choose; return its candidate at each budget in cells."""
        before = self._least
        least, taken = np.full(len(before), np.inf), np.zeros(len(before), np.int16)
        for candidate in np.argsort(steps, kind="stable"):
            step = steps[candidate]
            found = before[: len(before) - step] + losses[candidate]
            better = found < least[step:]
            least[step:][better] = found[better]
            taken[step:][better] = candidate
        self._least = least
        return taken

    def within(self, budget: float) -> tuple[int, ...] | None:
        """Return the candidate of each layer with the least loss at a cost of at most ``budget``.

        Of several the cheapest one. ``None`` if nothing is that cheap.
        """
        allowed = budget + 1e-9 * abs(budget)
        cells = int(np.floor((allowed - self.lowest) / self.cell + 1e-6))
        if cells < 0:
            return None
        # Rounding up may have left room for one cell a layer.
        last = len(self._least) - 1
        for place in range(min(cells + len(self.costs), last), min(cells, last), -1):
            if self._least[place] < self._least[place - 1]:
                choice = self._at(place)
                if self.cost(choice) <= allowed:
                    return choice
        return self._at(min(cells, last))

    def losing(self, most: float) -> tuple[int, ...] | None:
        """Return the cheapest candidates that lose ``most`` at most; ``None`` if all lose more."""
        enough = np.flatnonzero(self._least <= most)
        return self._at(int(enough[0])) if len(enough) else None

    def cost(self, choice: Sequence[int]) -> float:
        """Return what a choice costs, not rounded."""
        return float(sum(cost[c] for cost, c in zip(self.costs, choice, strict=True)))

    def _at(self, cells: int) -> tuple[int, ...]:
        left = int(np.argmax(self._least <= self._least[cells]))
        found = []
        for step, taken in zip(reversed(self._steps), reversed(self._taken), strict=True):
            found.append(int(taken[left]))
            left -= int(step[found[-1]])
        return tuple(reversed(found))


def _rounded_up(steps: Numbers) -> npt.NDArray[np.int64]:
    """Return whole numbers of cells, without a cell more for an error of rounding."""
    return np.ceil(steps - 1e-6).astype(np.int64)


def monotone(values: Sequence[float]) -> list[float]:
    """Return the nearest values (least squares) of which none is smaller than the one before.

    Isotonic regression by pooling neighbours that contradict the order; each pool gets its mean.
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        pool = (float(value), 1)
        while pools and pools[-1][0] > pool[0]:
            mean, count = pools.pop()
            total = count + pool[1]
            pool = ((mean * count + pool[0] * pool[1]) / total, total)
        pools.append(pool)
    return [mean for mean, count in pools for _ in range(count)]
