"""Reshapes group by group of axes: an index is divided only where axes are split or merged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from tvm import te, tirx
from tvm.sym import Analyzer

from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import flat

Axes = tuple[int, ...]


def reshape(x: te.Tensor, shape: Sequence[Any]) -> te.Tensor:
    """Return ``x`` with the same elements in ``shape``.

    TVM's own definition takes the index in the whole tensor apart. What is left of that when other
    operators are fused with it keeps loops from running in vectors.
    """
    before, after = ([_plain(extent) for extent in s] for s in (x.shape, shape))
    extents = [tirx.IntImm("int64", e) if isinstance(e, int) else e for e in after]
    return te.compute(extents, lambda *index: x(*source_of(index, after, before)), name="reshape")


def source_of(index: Sequence[Any], after: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """Return the index in extents ``before`` of the element at ``index`` in those ``after``."""
    zero = 0 * index[0] if len(index) else tirx.const(0, "int64")
    source: list[Any] = [zero] * len(before)
    for old, new in matching(before, after):
        place = flat([index[axis] for axis in new], tuple(after[axis] for axis in new))
        parts = unravel(place, tuple(before[axis] for axis in old))
        for axis, part in zip(old, parts, strict=True):
            source[axis] = part
    return source


def divides_by_symbols(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether the index of an element in extents ``before`` is a quotient by an open one."""
    groups = matching(before, after)
    return any(not isinstance(before[axis], int) for old, _ in groups for axis in old[1:])


def matching(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[Axes, Axes]]:
    """Return the least groups of neighbouring axes that hold as many elements before and after.

    Axes of extent one are in none. Extents may be symbolic.
    """
    olds, news = ([a for a, e in enumerate(s) if not _same(e, 1)] for s in (before, after))
    groups: list[tuple[Axes, Axes]] = []
    while olds or news:
        old, new = _first_group(before, after, olds, news)
        groups.append((tuple(old), tuple(new)))
        olds, news = olds[len(old) :], news[len(new) :]
    return groups


def _first_group(
    before: Sequence[Any], after: Sequence[Any], olds: list[int], news: list[int]
) -> tuple[list[int], list[int]]:
    """Return the fewest first axes that hold as many elements; all, where none are known to."""
    counts = product(range(1, len(olds) + 1), range(1, len(news) + 1))
    for i, j in sorted(counts, key=sum):
        if _same(math.prod(before[a] for a in olds[:i]), math.prod(after[a] for a in news[:j])):
            return olds[:i], news[:j]
    return olds, news


def _plain(extent: Any) -> Any:
    """Return an extent as a number, or in the form that other operators have it in."""
    return int(extent) if isinstance(extent, int | tirx.IntImm) else Analyzer().simplify(extent)


def _same(one: Any, other: Any) -> bool:
    """Whether two extents are equal, however they are computed."""
    if isinstance(one, int) or isinstance(other, int):
        return isinstance(one, int) and isinstance(other, int) and one == other
    return bool(Analyzer().can_prove_equal(one, other))
