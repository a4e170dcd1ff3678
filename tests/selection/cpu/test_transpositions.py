"""What convolutions that are channels last need before them and behind, to time it."""

from __future__ import annotations

import numpy as np

from tests.kernels import run
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cpu.transpositions import BEFORE, BEHIND, transpositions


def convolution(size, features, groups):
    lead, taps = (2, size, size), (3, 3)
    return Contraction(
        lead, 1, features, taps, (1, 1), (1, 1), (size, size), borders=(1, 1), groups=groups
    )


def test_both_swap_channels_and_positions():
    found = transpositions(convolution(5, 48, 16))
    assert {name: data.x.shape for name, (_, data) in found.items()} == {
        BEFORE: (2, 16, 25),
        BEHIND: (2, 25, 48),
    }
    for func, data in found.values():
        result = run(func, [data.x], data.output_shape, dtype=data.output_dtype)
        np.testing.assert_array_equal(result, data.x.swapaxes(1, 2))


def test_what_no_operator_transposes_is_left_out():
    assert transpositions(convolution(1, 8, 8)) == {}
    assert transpositions(convolution(3, 3, 3)).keys() == {BEFORE}
