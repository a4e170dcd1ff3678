"""Numbers of pixels: taps are shifts, vectors are aligned, only what is read is numbered."""

from __future__ import annotations

import pytest

from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.plane import Plane


@pytest.mark.parametrize("wide", [14, 28, 7])
def test_vectors_of_activations_are_aligned(wide):
    c = Contraction((1, 4, wide), 16, 16, (3, 3), (1, 1), (1, 1), (6, wide + 2), groups=1)
    plane = Plane(c, 4)
    assert all(place % LANES == 0 for place in (*plane.places, plane.step))


def test_long_kernels_have_one_copy():
    plane = Plane(Contraction((1, 50), 48, 48, (98,), (1,), (1,), (147,)), 4)
    assert plane.offsets == [0]
    assert plane.places == tuple(range(LANES, LANES + 98))


@pytest.mark.parametrize(
    ("stride", "dilation", "phases"),
    [(1, 1, (1, 1)), (2, 1, (2, 2)), (2, 2, (1, 1)), (4, 1, (3, 3)), (5, 2, (5, 5))],
)
def test_phases_are_those_that_a_tap_meets(stride, dilation, phases):
    size = 4 * stride + 2 * dilation + 1
    windows = (3, 3), (stride,) * 2, (dilation,) * 2, (size, size)
    assert Plane(Contraction((1, 5, 5), 16, 32, *windows), 1).phases == phases
