"""Axes as products of parts that reshapes keep whole, symbolic extents among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvm import tirx
from tvm.sym import Analyzer

from tvm_sparse.passes.graph.rewrite import same_extent

MOST = 8
"""Numbers up to which symbolic extents are tried to be multiples of each other."""

Step: TypeAlias = tuple[str, Sequence[Any]]
"""A reshape and the shape behind it, or a transposition and its axes."""


@dataclass(eq=False)
class Atom:
    """A part of an axis of the tensor before all steps; ``halves`` are what it was cut into."""

    extent: Any
    axis: int
    halves: tuple[Atom, ...] = field(default=())

    def leaves(self) -> list[Atom]:
        """Return the parts that are not cut any more, in order."""
        return [leaf for half in self.halves for leaf in half.leaves()] or [self]


def atoms_of(shape: Sequence[Any], steps: Sequence[Step]) -> tuple[list[Atom], list[list[Atom]]]:
    """Return the parts of a tensor of ``shape``, in order, and those of each axis behind ``steps``.

    Axes of extent one have none. Both are empty where a reshape cuts across the parts.
    """
    first = [Atom(extent, axis) for axis, extent in enumerate(shape)]
    axes = [[atom] for atom in first]
    for step, argument in steps:
        if step == "permute_dims":
            axes = [axes[axis] for axis in argument]
            continue
        found = _regrouped(
            [leaf for axis in axes for atom in axis for leaf in atom.leaves()], argument
        )
        if found is None:
            return [], []
        axes = found
    leaves = [[leaf for atom in axis for leaf in atom.leaves()] for axis in axes]
    before = [leaf for atom in first for leaf in atom.leaves() if not same_extent(leaf.extent, 1)]
    return before, [[part for part in axis if part in before] for axis in leaves]


def _regrouped(parts: list[Atom], shape: Sequence[Any]) -> list[list[Atom]] | None:
    rest, found = [part for part in parts if not same_extent(part.extent, 1)][::-1], []
    for extent in shape:
        axis, left = list[Atom](), extent
        while not same_extent(left, 1):
            if not rest:
                return None
            part = rest.pop()
            if (further := quotient(left, part.extent)) is not None:
                axis.append(part)
                left = further
                continue
            behind = quotient(part.extent, left)
            if behind is None:
                return None
            part.halves = Atom(left, part.axis), Atom(behind, part.axis)
            axis.append(part.halves[0])
            rest.append(part.halves[1])
            left = 1
        found.append(axis)
    return None if rest else found


def quotient(extent: Any, by: Any) -> Any | None:
    """Return ``extent / by`` where it is known to be whole at every size."""
    if isinstance(extent, int) and isinstance(by, int):
        return None if extent % by else extent // by
    if isinstance(extent, int):
        return None
    if same_extent(extent, by):
        return 1
    analyzer = Analyzer()
    tried = [analyzer.simplify(tirx.floordiv(extent, by))]
    for found in (*tried, *range(2, MOST + 1)):
        if _is_same(analyzer, found * by, extent):
            return int(found) if isinstance(found, int | tirx.IntImm) else found
    return None


def _is_same(analyzer: Analyzer, a: Any, b: Any) -> bool:
    return bool(analyzer.can_prove_equal(a, b))
