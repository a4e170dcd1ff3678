"""How much of a matrix is left when groups of rows share runs of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cover:
    """Runs of ``run`` columns in groups of ``group`` rows that hold a nonzero.

    ``share`` is the fraction of the matrix that they cover (of its padded rows, the last group
    counting as a whole one).
    """

    group: int
    run: int
    share: float


def covers(matrix: np.ndarray, groups: tuple[int, ...], runs: tuple[int, ...]) -> Iterator[Cover]:
    """Yield what each combination of ``groups`` and ``runs`` covers.

    Both ascend, each a multiple of the one before; runs that do not divide the columns are left
    out.
    """
    rows, cols = matrix.shape
    used = np.zeros((-(-rows // groups[-1]) * groups[-1], cols), np.bool_)
    np.not_equal(matrix, 0, out=used[:rows])
    height = 1
    for group in groups:
        used = np.asarray(used.reshape(-1, group // height, cols).any(1))
        height, wide, width = group, used, 1
        for run in runs:
            if cols % run == 0:
                wide = np.asarray(wide.reshape(len(wide), cols // run, run // width).any(2))
                width = run
                yield Cover(group, run, np.count_nonzero(wide) * group * run / (rows * cols))
