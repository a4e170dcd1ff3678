"""Which candidates a budget gives: the least drop within it, or the least time within a drop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.planning.costs import Costs
from tvm_sparse.planning.knapsack import Knapsack, Numbers
from tvm_sparse.planning.tables import Tables

KINDS = ("speedup", "latency_ms", "bytes", "sparsity", "max_drop")

Found = tuple[str, tuple[int, ...]]
"""Numerics, and the candidate of each layer."""


@dataclass(frozen=True)
class Budget:
    """A number of one of :data:`KINDS`.

    They are speed over dense float32, ms, bytes of weights, fraction of zeros, and drop: one minus
    the mean cosine of the outputs to the dense network's.
    """

    kind: str
    value: float

    @classmethod
    def of(cls, **given: float | None) -> Budget:
        """Return the only one of ``given`` that is not ``None``."""
        found = [(kind, value) for kind, value in given.items() if value is not None]
        if len(found) != 1:
            told = ", ".join(kind for kind, _ in found) or "none"
            raise InputError("plan", f"got {told} as a budget", f"one of {', '.join(KINDS)}")
        kind, value = found[0]
        if isinstance(value, bool) or not isinstance(value, int | float) or not _good(value):
            raise InputError(f"plan, {kind}", repr(value), "a number above zero")
        if kind == "sparsity" and value >= 1:
            raise InputError(f"plan, {kind}", repr(value), "a fraction below one")
        return cls(kind, float(value))

    def __str__(self) -> str:
        return f"{self.kind}={self.value:g}"


def _good(value: float) -> bool:
    return math.isfinite(value) and value > 0


def solved(tables: Tables, budget: Budget) -> Found:
    """Return what loses least within ``budget``; for a drop what takes the least time.

    Raises
    ------
    InputError
        Nothing is within the budget. The error names the best that there is.
    """
    if budget.kind == "latency_ms" and any(c.source != "measured" for c in tables.costs.values()):
        raise InputError(
            "plan, latency_ms",
            f"times on {tables.target} are modelled, relative to the dense network",
            "speedup=, bytes= or max_drop=",
            "or plan on that machine",
        )
    found = [choice for name in tables.costs for choice in _within(tables, name, budget)]
    if not found:
        raise _out_of_reach(tables, budget)

    def us(choice: Found) -> float:
        return tables.costs[choice[0]].whole_us(choice[1])

    def drop(choice: Found) -> float:
        return tables.costs[choice[0]].drop + tables.drop_of(choice[1])

    return min(found, key=us if budget.kind == "max_drop" else drop)


def _within(tables: Tables, name: str, budget: Budget) -> Iterator[Found]:
    """Yield what the search finds, and networks with one candidate everywhere, which were run."""
    costs, by_drop = tables.costs[name], budget.kind == "max_drop"
    table = _table(tables, costs, budget.kind)
    knapsack = Knapsack(list(table), list(tables.losses))
    allowed = _allowed(tables, costs, budget)
    if by_drop:
        choice = knapsack.losing(tables.most_loss(budget.value - costs.drop) * (1 + 1e-9))
    else:
        choice = knapsack.within(allowed)
    if choice is not None:
        yield name, choice
    for point in tables.uniform:
        same = (tables.candidates.index(point.label),) * len(tables.layers)
        if by_drop:
            fits = costs.drop + point.drop <= budget.value
        else:
            fits = knapsack.cost(same) <= allowed * (1 + 1e-9)
        if fits:
            yield name, same


def _table(tables: Tables, costs: Costs, kind: str) -> Numbers:
    """Return what layers take of a budget: bytes, weights that are kept, or microseconds."""
    if kind == "sparsity":
        return np.outer(tables.sizes, 1.0 - np.asarray(tables.levels))
    return costs.nbytes if kind == "bytes" else costs.us


def _allowed(tables: Tables, costs: Costs, budget: Budget) -> float:
    """Return what the layers together may take of ``budget``; of a drop, any time."""
    if budget.kind == "sparsity":
        return (1.0 - budget.value) * sum(tables.sizes)
    if budget.kind == "bytes":
        return budget.value - costs.rest_bytes
    if budget.kind == "max_drop":
        return math.inf
    us = tables.dense_us / budget.value if budget.kind == "speedup" else 1e3 * budget.value
    return us - costs.rest_us


def _out_of_reach(tables: Tables, budget: Budget) -> InputError:
    """Return an error that names the best that the tables have."""
    best = {}
    for name, costs in tables.costs.items():
        table = _table(tables, costs, budget.kind)
        choice = tuple(int(i) for i in table.argmin(axis=1))
        drop = costs.drop + tables.drop_of(choice)
        us, nbytes = costs.whole_us(choice), costs.whole_bytes(choice)
        zeros = tables.zeros_of(choice)
        told = {
            "speedup": (-tables.dense_us / us, f"speedup={tables.dense_us / us:.3g}"),
            "latency_ms": (us, f"latency_ms={us / 1e3:.4g}"),
            "bytes": (nbytes, f"bytes={nbytes:.0f}"),
            "sparsity": (-zeros, f"sparsity={zeros:.4g}"),
            "max_drop": (costs.drop, f"max_drop={costs.drop:.2g}"),
        }[budget.kind]
        at = "" if budget.kind == "max_drop" else f" with a drop of {drop:.2g}"
        best[name] = (told[0], f"{told[1]} at best, in {name}{at}")
    _, expected = min(best.values())
    todo = "allow higher levels, other methods or int8 (numerics=)"
    found = f"{budget} is out of reach"
    return InputError("plan", found, expected, "" if budget.kind == "max_drop" else todo)
