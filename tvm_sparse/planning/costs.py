"""Microseconds and bytes of each layer with each candidate, and of the rest of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_sparse.planning.candidates import Candidate
from tvm_sparse.planning.knapsack import Numbers, monotone
from tvm_sparse.planning.timing import Taken


@dataclass(frozen=True, eq=False)
class Costs:
    """A table in some numerics: arrays (layers, candidates), and what belongs to no layer.

    ``source`` is ``"measured"`` or ``"modelled"``. ``drop`` is what the numerics alone cost: one
    minus the cosine of the dense network's outputs.
    """

    us: Numbers
    rest_us: float
    nbytes: Numbers
    rest_bytes: float
    source: str
    drop: float = 0.0

    def whole_us(self, choice: Sequence[int]) -> float:
        """Return the microseconds of a network whose layers take the candidates of ``choice``."""
        return self.rest_us + float(self.us[np.arange(len(self.us)), list(choice)].sum())

    def whole_bytes(self, choice: Sequence[int]) -> float:
        """Return its bytes of packed weights."""
        return self.rest_bytes + float(self.nbytes[np.arange(len(self.us)), list(choice)].sum())

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **vars(self),
            "us": np.round(self.us, 4).tolist(),
            "nbytes": np.round(self.nbytes, 1).tolist(),
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Costs:
        """Undo :meth:`to_json`."""
        arrays = {key: np.array(content[key], np.float64) for key in ("us", "nbytes")}
        return cls(**{**content, **arrays})


def table(
    labels: Sequence[str],
    sizes: Sequence[int],
    candidates: Sequence[Candidate],
    found: Sequence[Taken],
    source: str,
) -> Costs:
    """Return the table of networks in which every layer took one candidate.

    Parameters
    ----------
    labels, sizes
        The layers that may be pruned, and their weights' numbers.
    found
        The network of each candidate, the dense one first.
    source
        Of the times.
    """
    us, rest_us = charged(
        np.array([[t.us.get(label, 0.0) for t in found] for label in labels]),
        np.array([t.whole_us for t in found]),
        sizes,
    )
    nbytes, rest_bytes = charged(
        np.array([[float(t.nbytes.get(label, 0)) for t in found] for label in labels]),
        np.array([float(t.whole_bytes) for t in found]),
        sizes,
    )
    # Where a format is slower than dense, compiling keeps the layer dense.
    us = np.minimum(ordered(us, candidates), us[:, :1])
    return Costs(us, rest_us, ordered(nbytes, candidates), rest_bytes, source)


def charged(own: Numbers, whole: Numbers, sizes: Sequence[int]) -> tuple[Numbers, float]:
    """Return the table whose columns sum up to ``whole``, and the rest of the first one.

    ``own`` (layers, candidates) is what layers are known to take. What else changes from the first
    network to another is charged to the layers: to those that nothing is known of by their sizes
    if there are such, to all by what they take otherwise.
    """
    rest = whole - own.sum(axis=0)
    unknown = own.max(axis=1, initial=0.0) == 0
    share = np.where(unknown, np.asarray(sizes, np.float64), 0.0) if unknown.any() else own[:, 0]
    total = float(share.sum())
    if total:
        own = np.maximum(own + (share / total)[:, None] * (rest - rest[0]), 0.0)
    return own, float(rest[0])


def ordered(table: Numbers, candidates: Sequence[Candidate]) -> Numbers:
    """Return ``table`` with no level of a family costing more than a less sparse one."""
    result = table.copy()
    for places in families(candidates):
        for row in result:
            row[places] = [-value for value in monotone([-row[p] for p in places])]
    return result


def families(candidates: Sequence[Candidate]) -> list[list[int]]:
    """Return the places of the candidates of each method, sparser ones later."""
    numbers = sorted({c.family for c in candidates if c.family})
    return [[i for i, c in enumerate(candidates) if c.family == family] for family in numbers]
