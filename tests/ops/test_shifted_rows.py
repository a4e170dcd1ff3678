"""Grouped convolutions by shifts of planes against the naive reference: exact on small integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.kernels import call, host, integers
from tests.ops.shapes import WINDOWS, window
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.plane import Plane
from tvm_sparse.ops.contractions.shifted_rows import shifted_format, shifted_rows
from tvm_sparse.schedules.build import build_function, scheduled
from tvm_sparse.schedules.cpu.masked_loops import has_masked_loop

EXTENTS = 1, 13, 64, 131
"""For an axis that is open: below a strip's lines, as many, more."""


def assert_exact(contraction, sparsity=0.7, vectors=2, target=None, complete=False, **extents):
    rng = np.random.default_rng(1)
    matrix = integers(rng, contraction.matrix_shape, sparsity)
    whole = CompressedRowsFormat.whole(*matrix.shape, 16)
    inner = whole if complete else CompressedRowsFormat.of(matrix, **extents)
    format = shifted_format(contraction, inner, vectors)
    func = shifted_rows(contraction, format, host(), vectors)
    built = build_function(func, target or host())
    for c in closed(contraction):
        x = integers(rng, c.input_shape)
        got = call(built, [x, *format.encode(matrix).values()], c.output_shape)
        assert (got == reference(c, x, matrix)).all()


def closed(contraction):
    """Yield contractions with extents for an open axis, or the one that is closed already."""
    c, images = contraction, len(contraction.lead) - len(contraction.taps)
    axis = next((i for i, extent in enumerate(c.lead) if not isinstance(extent, int)), None)
    for extent in EXTENTS if axis is not None else (0,):
        lead = tuple(extent if i == axis else e for i, e in enumerate(c.lead))
        padded = list(c.padded)
        if axis is not None and axis >= images:
            padded[axis - images] = _touched(c, axis - images, extent)
        yield replace(c, lead=lead, padded=tuple(padded))


def opened(contraction, axis=0):
    c, images = contraction, len(contraction.lead) - len(contraction.taps)
    extent = tirx.Var("n", "int64")
    lead = (*c.lead[:axis], extent, *c.lead[axis + 1 :])
    padded = list(c.padded)
    if axis >= images:
        padded[axis - images] = _touched(c, axis - images, extent)
    return replace(c, lead=lead, padded=tuple(padded))


def _touched(c, axis, extent):
    """Return what the windows of ``extent`` outputs touch of a spatial axis."""
    return (extent - 1) * c.strides[axis] + (c.taps[axis] - 1) * c.dilation[axis] + 1


def grouped(extents, columns, features, groups):
    return replace(window(extents, columns, features), groups=groups)


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize("columns", [16, 21])
def test_windows(extents, columns):
    assert_exact(grouped(extents, columns, 64, 2), tile_rows=16)


@pytest.mark.grid
@pytest.mark.parametrize("columns", [16, 21])
def test_one_group(columns):
    assert_exact(window(WINDOWS[0], columns, 16), 0.75, 4, tile_rows=16)


@pytest.mark.grid
@pytest.mark.parametrize("columns", [1, 3, 8, 33])
@pytest.mark.parametrize("features", [1, 3, 8, 16])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_few_features_and_columns(monkeypatch, columns, features, threads):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    large = Contraction((2, 40, 50), columns, features, (3, 5), (1, 1), (1, 1), (42, 54))
    for c in (window(WINDOWS[0], columns, features), large):
        assert_exact(c, 0.6, 4, tile_rows=16)
        assert_exact(c, 0.6, 4, complete=True)


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize(("columns", "features", "groups"), [(21, 64, 2), (16, 16, 1), (5, 3, 1)])
def test_an_open_batch(monkeypatch, threads, extents, columns, features, groups):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    assert_exact(opened(grouped(extents, columns, features, groups)), 0.6, 4, tile_rows=16)


def test_an_open_batch_of_a_large_plane_with_threads(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    large = Contraction((2, 40, 50), 8, 3, (3, 5), (1, 1), (1, 1), (42, 54))
    assert_exact(opened(large), 0.6, 4, complete=True)


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize(("columns", "features", "groups"), [(21, 64, 2), (16, 16, 1), (5, 3, 1)])
@pytest.mark.parametrize("axis", [-1, -2])
def test_an_open_axis_of_a_plane(monkeypatch, threads, extents, columns, features, groups, axis):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    c = grouped(extents, columns, features, groups)
    axis = max(axis, -len(c.taps)) % len(c.lead)
    one = replace(c, lead=(*[1] * (len(c.lead) - len(c.taps)), *c.lead[-len(c.taps) :]))
    assert_exact(opened(one, axis), 0.6, 4, tile_rows=16)


def test_strips_of_a_wide_plane_with_threads(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    for axis in (1, 2):
        large = Contraction((1, 40, 50), 8, 3, (3, 5), (1, 1), (1, 1), (42, 54))
        assert_exact(opened(large, axis), 0.6, 4, complete=True)


@pytest.mark.grid
@pytest.mark.parametrize(
    "extents", [{"tile_rows": 32}, {"tile_rows": 16, "tile_cols": 24}], ids=str
)
def test_tiles_of_the_weight(extents):
    assert_exact(grouped(WINDOWS[0], 24, 96, 3), 0.5, 4, **extents)


@pytest.mark.grid
@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank):
    lead = (2, 3, 2, 9)[: 1 + rank] if rank == 3 else (1, 40)
    strides, dilation = (1, 2, 1)[:rank], (1, 1, 2)[:rank]
    padded = tuple(
        (n - 1) * s + 2 * d + 1 for n, s, d in zip(lead[1:], strides, dilation, strict=True)
    )
    shape = lead, 16, 32, (3,) * rank, strides, dilation, padded
    assert_exact(Contraction(*shape, groups=2))


@pytest.mark.grid
@pytest.mark.parametrize("stride", [1, 3])
def test_long_kernels_have_one_copy(stride):
    padded = 49 * stride + 80
    c = Contraction((2, 50), 48, 64, (80,), (stride,), (1,), (padded,), groups=2)
    assert Plane(c, 4).offsets == [0]
    assert_exact(c, 0.9, 4)
    assert_exact(replace(c, columns=37), 0.9, 4)


@pytest.mark.grid
@pytest.mark.parametrize(("stride", "phases"), [(1, 1), (2, 4), (4, 9)])
def test_only_pixels_that_a_tap_meets_are_packed(stride, phases):
    size = 4 * stride + 3
    c = Contraction((1, 5, 5), 16, 32, (3, 3), (stride,) * 2, (1, 1), (size, size), groups=2)
    assert np.prod(Plane(c, 1).phases) == phases
    assert_exact(c)


@pytest.mark.grid
@pytest.mark.parametrize("sparsity", [0.0, 1.0])
def test_full_and_empty_weights(sparsity):
    assert_exact(grouped(WINDOWS[0], 16, 32, 2), sparsity)


@pytest.mark.grid
@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    assert_exact(grouped(WINDOWS[1], 16, 32, 2), target=host(cpu))


@settings(max_examples=5)
@given(
    wide=st.integers(1, 40),
    columns=st.integers(16, 40),
    taps=st.sampled_from([(1,), (3,), (4,)]),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 3),
    groups=st.integers(1, 3),
    sparsity=st.floats(0, 1),
)
def test_any_row(wide, columns, taps, stride, dilation, groups, sparsity):
    padded = (wide - 1) * stride + (taps[0] - 1) * dilation + 1
    shape = (1, wide), columns, 16 * groups, taps, (stride,), (dilation,), (padded,)
    assert_exact(Contraction(*shape, groups=groups), sparsity)


def test_vectors_need_no_care_of_masks():
    c = Contraction((1, 14, 14), 16, 32, (3, 3), (1, 1), (1, 1), (16, 16), groups=2)
    matrix = np.ones(c.matrix_shape, np.float32)
    plane = Plane(c, 2)
    format = ShiftedRowsFormat(CompressedRowsFormat.of(matrix), plane.step, plane.places)
    mod = scheduled(shifted_rows(c, format, host(), 2), host())
    assert not any(has_masked_loop(f) for _, f in tvm.IRModule(mod.functions).functions_items())
