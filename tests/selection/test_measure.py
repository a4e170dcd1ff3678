"""Operators are timed in pieces that are short next to the slices in which cores are shared."""

from __future__ import annotations

import pytest

from tvm_sparse.selection.measure import PIECE, TURN, pieces


@pytest.mark.parametrize("seconds", [1e-7, 3e-6, 1e-4, 2.5e-4, 4e-4, 1e-3, 0.01, 1.0])
def test_a_turn_is_timed_in_short_pieces(seconds):
    calls, repeats = pieces(seconds)
    assert calls >= 1 and repeats >= 1
    assert calls * seconds <= max(1.5 * PIECE, seconds)
    assert calls * repeats * seconds <= max(1.5 * TURN, seconds)
    assert calls * repeats * seconds >= 0.5 * TURN
