"""What groups of rows and runs of columns cover, counted by hand."""

from __future__ import annotations

import numpy as np

from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.covers import Cover, covers


def test_covers_of_single_weights():
    matrix = np.zeros((6, 8))
    matrix[0, 0] = matrix[1, 5] = matrix[5, 7] = 1
    found = list(covers(Scan(matrix), (1, 4), (1, 2, 3, 4)))
    assert found == [
        Cover(1, 1, 3 / 48),
        Cover(1, 2, 6 / 48),
        Cover(1, 4, 12 / 48),
        Cover(4, 1, 12 / 48),
        Cover(4, 2, 24 / 48),
        Cover(4, 4, 48 / 48),
    ]


def test_padded_rows_count():
    (cover,) = covers(Scan(np.ones((5, 2))), (4,), (2,))
    assert cover.fraction == 16 / 10
