"""A corner of a weight's mask, small enough to keep for every layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvm_sparse.patterns.base import Fit
from tvm_sparse.patterns.lowering import lower

ROWS, COLS = 48, 96
"""Extents of the corner: some banks and blocks of every pattern."""


@dataclass(frozen=True)
class MaskPicture:
    """The first rows and columns of a mask, True = kept, and the pattern's units (0 if none).

    Columns are in the order in which the pattern was found.
    """

    mask: npt.NDArray[np.bool_]
    unit_rows: int
    unit_cols: int


def mask_picture(weight: np.ndarray, fit: Fit | None) -> MaskPicture:
    """Return the corner of ``weight`` with the units of the pattern that was found in it."""
    rows, cols = fit.pattern.units() if fit is not None else (0, 0)
    matrix = lower(weight[:ROWS], fit.order if fit is not None else "hwi")
    return MaskPicture(matrix[:, :COLS] != 0, rows, cols)
