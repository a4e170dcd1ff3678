"""Reshapes group by group of axes: an index is divided only where axes are split or merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

Axes = tuple[int, ...]


def reshape(x: te.Tensor, shape: Sequence[int]) -> te.Tensor:
    """Return ``x`` with the same elements in the static ``shape``.

    TVM's own definition takes the index in the whole tensor apart. What is left of that when other
    operators are fused with it keeps loops from running in vectors.
    """
    before = [int(extent) for extent in x.shape]
    groups = matching(before, shape)

    def at(*index: Any) -> Any:
        source: list[Any] = [tirx.const(0, "int64")] * len(before)
        for old, new in groups:
            place: Any = tirx.const(0, "int64")
            for axis in new:
                place = place * int(shape[axis]) + index[axis]
            for axis in reversed(old[1:]):
                source[axis] = tirx.floormod(place, before[axis])
                place = tirx.floordiv(place, before[axis])
            if old:
                source[old[0]] = place
        return x(*source)

    return te.compute([tirx.IntImm("int64", int(e)) for e in shape], at, name="reshape")


def matching(before: Sequence[int], after: Sequence[int]) -> list[tuple[Axes, Axes]]:
    """Return the least groups of neighbouring axes that hold as many elements before and after.

    Axes of extent one are in none.
    """
    olds, news = ([a for a, e in enumerate(s) if e != 1] for s in (before, after))
    groups: list[tuple[Axes, Axes]] = []
    while olds:
        old, new = [olds.pop(0)], [news.pop(0)]
        many, wanted = int(before[old[0]]), int(after[new[0]])
        while many != wanted:
            if many < wanted:
                old.append(olds.pop(0))
                many *= int(before[old[-1]])
            else:
                new.append(news.pop(0))
                wanted *= int(after[new[-1]])
        groups.append((tuple(old), tuple(new)))
    return groups
