"""Groups of equal extents: rows or blocks sorted by how much they store, so loops stay static."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.errors import UnsupportedError

MARKS = 512
"""Buckets end at one of as many places, so that choosing them takes bounded time."""


@dataclass(frozen=True)
class Bucket:
    """``groups`` consecutive groups that store ``slots`` entries each."""

    groups: int
    slots: int


@dataclass(frozen=True)
class Buckets:
    """All groups of a format, bucket after bucket; the entries of a group follow one another."""

    parts: tuple[Bucket, ...]

    @property
    def groups(self) -> int:
        """Number of groups."""
        return sum(part.groups for part in self.parts)

    @property
    def slots(self) -> int:
        """Number of entries of all groups, padding included."""
        return sum(part.groups * part.slots for part in self.parts)

    @property
    def slots_of(self) -> npt.NDArray[np.int64]:
        """Entries of each group."""
        return np.repeat(
            np.array([part.slots for part in self.parts], np.int64),
            [part.groups for part in self.parts],
        )

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """First entry of each group."""
        slots = self.slots_of
        return np.cumsum(slots) - slots

    def order(self, counts: npt.NDArray[np.integer], where: str) -> npt.NDArray[np.int32]:
        """Return which group of the matrix is stored at each place, the fullest first.

        A single bucket keeps the order. Raise if a group has more entries than its place.
        """
        keep = np.arange(len(counts))
        order = np.argsort(-counts, kind="stable") if len(self.parts) > 1 else keep
        beyond = np.flatnonzero(counts[order] > self.slots_of)
        if len(beyond):
            group, most = int(order[beyond[0]]), int(self.slots_of[beyond[0]])
            raise UnsupportedError(
                where,
                f"{counts[group]} entries in group {group}",
                f"at most {most}",
                "size the format with its method `of`",
            )
        return order.astype(np.int32)

    def columns(self, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Return the columns of ``kept`` ``(groups, columns)``, ascending in each group.

        Slots that are not needed name the first column of their group that is not kept: zeros there
        give what they give in the matrix itself, NaN times an infinity.
        """
        place, column = np.nonzero(kept)
        counts = kept.sum(1)
        ends = np.cumsum(counts)
        columns = np.repeat(kept.argmin(1), self.slots_of).astype(np.int32)
        rank = np.arange(len(column)) - np.repeat(ends - counts, counts)
        columns[self.starts[place] + rank] = column
        return columns

    def used(self, counts: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return whether each slot is needed, where groups need ``counts``."""
        rank = np.arange(self.slots) - np.repeat(self.starts, self.slots_of)
        return np.less(rank, np.repeat(counts, self.slots_of))


def fill(counts: npt.ArrayLike, limit: int) -> Buckets:
    """Return at most ``limit`` buckets that hold ``counts`` with the least padding.

    Parameters
    ----------
    counts
        Entries that each group needs.
    limit
        Most buckets; 1 keeps the groups in their order.

    A group has one entry at least: loops of extent zero would need a case of their own.
    """
    needed = np.maximum(np.asarray(counts, np.int64), 1)
    descending, numbers = np.unique(-needed, return_counts=True)
    sizes = -descending
    total = np.append(0, np.cumsum(numbers))
    ends = _cuts(sizes, numbers, limit)
    parts = [
        Bucket(int(total[end] - total[start]), int(sizes[start]))
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]
    return Buckets(tuple(parts))


def _cuts(sizes: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64], limit: int) -> list[int]:
    """Return where runs of descending ``sizes``, each padded to its first, end at least cost.

    Dynamic programming over the number of runs: ``cost[e]`` is the least for all before mark e.
    """
    marks = np.unique(np.linspace(0, len(sizes), MARKS + 1).astype(np.int64))
    total = np.append(0, np.cumsum(numbers))[marks]
    first, start, end = sizes[marks[:-1]], total[:-1, None], total[None, :]
    run = np.where(end > start, first[:, None] * (end - start), np.inf)
    cost, choices = total.astype(np.float64) * sizes[0], []
    for _ in range(min(limit, len(first)) - 1):
        ways = cost[:-1, None] + run
        choices.append(ways.argmin(0))
        cost = np.append(0.0, ways.min(0)[1:])
    # Sizes differ, so every run that is allowed pays and none is left empty.
    ends = [len(marks) - 1]
    for choice in reversed(choices):
        ends.insert(0, int(choice[ends[0]]))
    return [int(marks[end]) for end in ends]
