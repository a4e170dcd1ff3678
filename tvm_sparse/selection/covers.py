"""How much of a matrix is left when groups of rows share runs of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm_sparse.patterns.scan import Scan


@dataclass(frozen=True)
class Cover:
    """Runs of ``run`` columns in groups of ``group`` rows that hold a nonzero.

    ``fraction`` is that of the matrix that they cover (of its padded rows, the last group
    counting as a whole one).
    """

    group: int
    run: int
    fraction: float


def covers(scan: Scan, groups: tuple[int, ...], runs: tuple[int, ...]) -> Iterator[Cover]:
    """Yield what each combination of ``groups`` and ``runs`` covers.

    Runs that do not divide the columns are left out.
    """
    for group in groups:
        for run in runs:
            if scan.cols % run == 0:
                occupied, _ = scan.block_totals(group, run)
                yield Cover(group, run, occupied * group * run / scan.cells)
