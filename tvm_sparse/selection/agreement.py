"""Layers that the cost model decides alone, because it agreed with what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from tvm_sparse.selection.candidate import Candidate

ENOUGH = 3
"""Layers of a kind that must have been measured before."""

CLEAR = 0.8
"""Time of the better candidate over the other's, at the most, for a choice without measuring."""

SMALLER = 2.0
"""How many times fewer operations a layer may have than any that was measured."""


class Agreement:
    """How far measured ratios of two candidates were from modelled ones, in one network.

    Compiling and timing a pair takes a third of a second. Where the model was right about layers
    of a kind, on this machine, it is right about one more: with the largest error that was seen,
    one candidate must still be clearly faster.
    """

    def __init__(self) -> None:
        self._seen: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)

    def add(
        self,
        kind: Hashable,
        operations: float,
        candidates: Sequence[Candidate],
        times: Mapping[str, float],
    ) -> None:
        """Remember the times in microseconds of the candidates of a layer."""
        if len(candidates) == 2:
            first, second = (times[candidate.name] for candidate in candidates)
            error = second / first / _modelled(candidates)
            self._seen[_key(kind, candidates)].append((error, operations))

    def vouching(self, kind: Hashable, operations: float, candidates: Sequence[Candidate]) -> int:
        """Return how many layers vouch for the model's choice; zero if this one is to be measured.

        ``kind`` is equal for layers whose candidates have the same loop nests, ``operations`` are
        those of the dense layer.
        """
        seen = self._seen.get(_key(kind, candidates), []) if len(candidates) == 2 else []
        if len(seen) < ENOUGH or operations * SMALLER < min(size for _, size in seen):
            return 0
        ratio, errors = _modelled(candidates), [error for error, _ in seen]
        clear = ratio * max(errors) <= CLEAR or ratio * min(errors) * CLEAR >= 1
        return len(seen) if clear else 0


def _modelled(candidates: Sequence[Candidate]) -> float:
    """Return the modelled time of the second candidate over that of the first."""
    first, second = candidates
    return second.cost / first.cost


def _key(kind: Hashable, candidates: Sequence[Candidate]) -> Hashable:
    return (kind, *(candidate.name for candidate in candidates))
