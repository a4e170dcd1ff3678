"""Operators are timed in pieces that are short next to the slices in which cores are shared."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te

from tvm_sparse.selection.measure import PIECE, TURN, _require_fit, pieces


@pytest.mark.parametrize("seconds", [1e-7, 3e-6, 1e-4, 2.5e-4, 4e-4, 1e-3, 0.01, 1.0])
def test_a_turn_is_timed_in_short_pieces(seconds):
    calls, repeats = pieces(seconds)
    assert calls >= 1 and repeats >= 1
    assert calls * seconds <= max(1.5 * PIECE, seconds)
    assert calls * repeats * seconds <= max(1.5 * TURN, seconds)
    assert calls * repeats * seconds >= 0.5 * TURN


def test_arrays_of_another_format_are_refused():
    x = te.placeholder((2, 16), "float32", name="x")
    func = te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] + 1, name="y")])
    _require_fit(func, [np.zeros((2, 16), "f4")] * 2)
    with pytest.raises(ValueError, match="would be timed with"):
        _require_fit(func, [np.zeros((2, 16), "f4"), np.zeros((2, 8), "f4")])
