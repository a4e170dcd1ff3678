"""The sizes that a trace holds for are those that give its guards' answers."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

from tvm_sparse.frontends.onnx.ranges import ranges_of, settled


def _traced(function, *sizes):
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    dims = dict.fromkeys(range(len(sizes)), Dim.AUTO)
    program = torch.export.export(Module(), (torch.zeros(sizes),), dynamic_shapes=(dims,))
    (x,) = (n for n in program.graph.nodes if n.op == "placeholder")
    return program, [settled(extent) for extent in x.meta["val"].shape]


def _found(function, *sizes, wanted=(1, None)):
    program, symbols = _traced(function, *sizes)
    traced_at = dict(zip(symbols, sizes, strict=True))
    found = ranges_of(program, traced_at, dict.fromkeys(traced_at, wanted))
    return None if found is None else [(found[0][s], found[1].get(s, 1)) for s in symbols]


def _ranges(function, *sizes, wanted=(1, None)):
    found = _found(function, *sizes, wanted=wanted)
    return None if found is None else [limits for limits, step in found if step == 1]


def test_any_size():
    assert _ranges(torch.relu, 7, 9) == [(1, None), (1, None)]


@pytest.mark.parametrize("size", [40, 300])
def test_a_kernel_bounds_from_below(size):
    def windows(x):
        return torch.nn.functional.conv1d(x[:, None], torch.ones(1, 1, 24))

    assert _ranges(windows, 3, size)[1] in ((24, None), (25, None))


def test_a_branch_on_a_size_bounds_on_both_sides():
    def two_rows(x):
        return x * 2 if (x.shape[1] - 1) // 16 == 2 else x

    assert _ranges(two_rows, 3, 40)[1] == (33, 48)
    assert _ranges(two_rows, 3, 90)[1] == (49, None)
    assert _ranges(two_rows, 3, 36, wanted=(1, 39))[1] == (33, 39)


def test_multiples_alone():
    def even(x):
        return x.reshape(x.shape[0], -1, 4) if x.shape[1] % 4 == 0 else x

    assert _found(even, 3, 40) == [((1, None), 1), ((8, None), 4)]
    assert _found(even, 3, 40, wanted=(1, 50)) == [((1, 50), 1), ((8, 48), 4)]


def test_halves_that_meet_again():
    def joined(x):
        half, quarter = -(-x.shape[1] // 16), -(-x.shape[1] // 32)
        return x * 2 if half == 2 * quarter else x

    assert _found(joined, 3, 96)[1] == ((32, None), 32)
    assert _found(joined, 3, 81)[1] == ((81, 96), 1)


def test_guards_of_two_extents_are_asked_together():
    def wider(x):
        return x * 2 if x.shape[1] > x.shape[0] else x

    assert _ranges(wider, 3, 40) is None


def test_a_guard_of_two_extents_bounds_each_of_them():
    def one_row(x):
        rows = (x.shape[1] - 1) // 16
        return x * 2 if rows * x.shape[0] == x.shape[0] else x

    assert _ranges(one_row, 3, 20) == [(1, None), (17, 32)]


def test_a_guard_that_fails_in_a_corner_raises_one_extent():
    def planes(x):
        return x * 2 if (x.shape[0] // 4) * (x.shape[1] // 4) > 2 else x

    (low, high), other = _ranges(planes, 20, 24)
    assert high is other[1] is None and {low, other[0]} in ({4, 12}, {4, 20})
    assert (low // 4) * (other[0] // 4) > 2
    assert _ranges(lambda x: x * 2 if x.shape[0] % (x.shape[1] + 1) == 7 else x, 20, 12) is None


def test_a_fixed_extent_is_a_number():
    _, symbols = _traced(lambda x: x.reshape(x.shape[0], 10), 3, 10)
    assert symbols[1] == 10
