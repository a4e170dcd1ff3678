"""Transpositions of whole tiles against NumPy, and which ones these are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te

from tests.kernels import run
from tvm_sparse.ops.tensors.borders import Borders
from tvm_sparse.ops.tensors.permute import PARALLEL_POINTS, Permutation, permute


@pytest.mark.parametrize(
    "shape, axes, plain",
    [
        ((1, 64, 7, 8), (0, 2, 3, 1), ((64, 56), (1, 0))),
        ((2, 64, 7, 8), (0, 2, 3, 1), ((2, 64, 56), (0, 2, 1))),
        ((2, 3, 4, 5), (0, 1, 2, 3), ((120,), (0,))),
        ((5, 1, 6), (1, 2, 0), ((5, 6), (1, 0))),
        ((3, 4, 5), (2, 1, 0), ((3, 4, 5), (2, 1, 0))),
        ((2, 3, 4, 5), (2, 3, 0, 1), ((6, 20), (1, 0))),
    ],
)
def test_as_few_axes_as_possible(shape, axes, plain):
    assert Permutation.of(shape, axes) == Permutation(*plain)


@pytest.mark.parametrize(
    "shape, axes, expected",
    [((16, 16), (1, 0), True), ((15, 16), (1, 0), False), ((16, 17, 18), (1, 0, 2), False)],
)
def test_what_turns_tiles(shape, axes, expected):
    assert Permutation.of(shape, axes).turns_tiles() is expected


@pytest.mark.parametrize(
    "shape, axes, expected",
    [
        ((1, 3, 4, 4), (0, 2, 3, 1), True),
        ((3, 16), (1, 0), True),
        ((3, 15), (1, 0), True),
        ((3, 3), (1, 0), False),
        ((16, 16), (1, 0), False),
        ((3, 20, 30), (2, 1, 0), False),
        ((20, 3), (0, 1), False),
    ],
)
def test_what_interleaves(shape, axes, expected):
    assert Permutation.of(shape, axes).interleaves() is expected


def check(shape, axes, dtype="float32"):
    plain = Permutation.of(shape, axes)
    assert plain.turns_tiles() != plain.interleaves()
    x = te.placeholder(shape, dtype, "X")
    after = [shape[axis] for axis in axes]
    func = te.create_prim_func([x, permute(x, plain, after)])
    value = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    found = run(func, [value], tuple(after), dtype=dtype)
    np.testing.assert_array_equal(found, value.transpose(axes))


@settings(deadline=None, max_examples=6)
@given(st.tuples(st.integers(1, 3), st.integers(16, 40), st.integers(1, 4), st.integers(16, 40)))
def test_any_shape(shape):
    check(shape, (0, 2, 3, 1))
    check(shape, (0, 3, 2, 1))


@settings(deadline=None, max_examples=6)
@given(
    st.tuples(st.integers(1, 3), st.integers(2, 15), st.integers(4, 9), st.integers(4, 9)),
    st.sampled_from(["float32", "uint8", "int8"]),
)
def test_short_axes(shape, dtype):
    check(shape, (0, 2, 3, 1), dtype)


@settings(deadline=None, max_examples=8)
@given(
    st.integers(1, 3),
    st.integers(16, 35),
    st.lists(st.integers(3, 20), min_size=1, max_size=3).filter(lambda s: np.prod(s) >= 16),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.sampled_from([0, 2]),
)
def test_borders(images, channels, spatial, widths, value):
    check_borders((images, channels, *spatial), widths, value, "float32")


def check_borders(shape, widths, value, dtype):
    """Compare a move of channels that writes borders with NumPy's."""
    images, channels, *spatial = shape
    rank = len(spatial)
    before, after = widths[:rank], widths[3 : 3 + rank]
    borders = Borders.of(spatial, [*before, *after, value])
    plain = Permutation.of(shape, (0, *range(2, rank + 2), 1))
    x = te.placeholder(shape, dtype, "X")
    whole = (images, *borders.whole, channels)
    func = te.create_prim_func([x, permute(x, plain, whole, borders)])
    values = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    inner = np.moveaxis(values, 1, -1)
    around = [(0, 0), *zip(before, after, strict=True), (0, 0)]
    expected = np.pad(inner, around, constant_values=value)
    np.testing.assert_array_equal(run(func, [values], whole, dtype=dtype), expected)


def test_threads():
    check((2, 3, PARALLEL_POINTS // 4), (0, 2, 1), "uint8")
    check((2, PARALLEL_POINTS // 64 + 1, 33), (0, 2, 1))
    check((3, PARALLEL_POINTS // 3 + 1), (1, 0), "uint8")  # colours are interleaved
