"""The order of transposed columns: every one has a place of its own, as many as a quad has rows."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_sparse.formats.squares import Squares
from tvm_sparse.machine.vector import LANES


@pytest.mark.parametrize(("bits", "columns"), [(8, 64), (8, 130), (8, 20), (16, 32), (16, 45)])
def test_registers_hold_rows_of_a_column_in_each_quad(bits, columns):
    s, taps = Squares(columns, bits), 2
    # What a transposition within quads leaves, walked register by register.
    held = np.full(taps * s.count * s.wide * LANES, -1)
    for number in range(taps * s.count):
        tap, square = divmod(number, s.count)
        begin = min(square * s.wide, columns - s.wide)
        for register in range(s.high):
            for quad in range(s.wide // s.high):
                column = tap * columns + begin + quad * s.high + register
                at = number * s.wide * LANES + register * s.wide + quad * s.high
                held[at : at + s.high] = column
    every = np.arange(taps * columns)
    assert (held[s.place(every)] == every).all()
    assert (held[s.place(every) + s.high - 1] == every).all()
