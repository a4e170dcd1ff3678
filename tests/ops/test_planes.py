"""Convolutions that stay channels first against the naive reference: exact on small integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers, run
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.planes import plane_of, planes, planes_shapes


def assert_exact(c, after=None, sparsity=0.7, vectors=4, target=None, **extents):
    """Compare ``c``, behind whose spatial axes lie ``after`` zeros (as before them by default)."""
    rng = np.random.default_rng(1)
    matrix = integers(rng, c.matrix_shape, sparsity)
    plane = plane_of(c, vectors)
    extents = {"tile_rows": c.features // c.groups} | extents
    format = ShiftedRowsFormat(CompressedRowsFormat.of(matrix, **extents), plane.step, plane.places)
    before, output_shape = planes_shapes(c)
    x = integers(rng, before)
    operands = [x, *format.encode(matrix).values()]
    got = run(planes(c, format, host(), vectors), operands, output_shape, target)
    widths = list(zip(c.borders, after or c.borders, strict=True))
    padded = np.pad(np.moveaxis(x, 1, -1), [(0, 0), *widths, (0, 0)])
    plain = replace(c, padded=padded.shape[1:-1], borders=())
    assert (np.moveaxis(got, 1, -1) == reference(plain, padded, matrix)).all()


def grouped(images, inputs, taps, **options):
    """Return a convolution of ``inputs`` pixels."""
    rank = len(taps)
    strides = options.get("strides", (1,) * rank)
    dilation = options.get("dilation", (1,) * rank)
    borders, groups = options.get("borders", (0,) * rank), options.get("groups", 2)
    axes = zip(inputs, taps, strides, dilation, borders, strict=True)
    lead = (images, *((e + 2 * b - d * (k - 1) - 1) // s + 1 for e, k, s, d, b in axes))
    shape = lead, options.get("columns", 5), options.get("features", 6) * groups
    return Contraction(
        *shape, taps, strides, dilation, tuple(inputs), borders=borders, groups=groups
    )


@pytest.mark.grid
@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (15, 16), (9, 17), (4, 33)])
def test_sizes(images, size):
    assert_exact(grouped(images, size, (3, 3), borders=(1, 1)))


@pytest.mark.grid
@pytest.mark.parametrize(
    "options",
    [
        {"strides": (2, 2), "borders": (1, 1)},
        {"strides": (3, 2), "borders": (2, 0)},
        {"strides": (1, 2), "dilation": (2, 3), "borders": (2, 3)},
        {"dilation": (2, 1), "borders": (0, 4)},
        {"strides": (4, 5), "groups": 1},
    ],
    ids=str,
)
def test_windows(options):
    assert_exact(grouped(2, (13, 23), (3, 3), **options))
    assert_exact(grouped(1, (40, 41), (3, 2), **options), vectors=8)


def test_more_zeros_behind_than_before():
    c = grouped(1, (9, 11), (3, 3), borders=(1, 1))
    assert_exact(replace(c, lead=(1, 10, 12)), after=(2, 2))
    assert_exact(replace(c, lead=(1, 8, 10)), after=(0, 0))


def test_borders_wider_than_the_kernel():
    assert_exact(grouped(1, (3, 4), (2, 2), borders=(5, 6), strides=(2, 3)))


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank):
    size = (3, 6, 19)[-rank:]
    assert_exact(grouped(2, size, (3,) * rank, borders=(1,) * rank, groups=3))


def test_long_rows_are_copied_in_a_loop():
    assert_exact(grouped(1, (1003,), (3,), borders=(1,), groups=4))
    assert_exact(grouped(1, (1003,), (5,), borders=(2,), strides=(2,)))


@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_full_and_empty_weights(sparsity):
    assert_exact(grouped(1, (8, 9), (3, 3), borders=(1, 1)), sparsity=sparsity)


@pytest.mark.grid
@pytest.mark.parametrize("features", [1, 3, 16])
def test_a_plane_that_several_features_read(features):
    options = {"columns": 1, "features": features, "groups": 20, "borders": (1, 1)}
    assert_exact(grouped(2, (9, 17), (3, 3), **options))
    assert_exact(grouped(1, (9, 17), (3, 3), strides=(2, 2), **options))


def test_tiles_of_the_weight():
    c = grouped(1, (9, 10), (3, 3), borders=(1, 1), columns=17, features=48)
    assert_exact(c, tile_rows=16, tile_cols=40)
    assert_exact(replace(c, groups=1, columns=34), tile_rows=32, tile_cols=1024)


@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    c = grouped(1, (14, 15), (3, 3), borders=(1, 1), strides=(2, 2))
    assert_exact(c, target=host(cpu))


@settings(max_examples=6)
@given(
    wide=st.integers(1, 70),
    taps=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 3),
    border=st.integers(0, 4),
    groups=st.integers(1, 3),
    vectors=st.integers(1, 8),
)
def test_any_row(wide, taps, stride, dilation, border, groups, vectors):
    wide = max(wide, (taps - 1) * dilation + 1 - 2 * border)
    options = {"strides": (stride,), "dilation": (dilation,), "borders": (border,)}
    assert_exact(grouped(1, (wide,), (taps,), groups=groups, **options), vectors=vectors)
