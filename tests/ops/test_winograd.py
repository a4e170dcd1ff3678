"""Winograd convolution, as the default CPU rule schedules it, against the naive reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.kernels import host, integers, run
from tvm_sparse.formats.winograd import WinogradFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.winograd import fits, winograd, work
from tvm_sparse.schedules.build import build_function
from tvm_sparse.selection.candidates import dense_candidates


def layer(batch, height, width, columns, features):
    padded = (height + 2, width + 2)
    return Contraction((batch, height, width), columns, features, (3, 3), (1, 1), (1, 1), padded)


def convolved(contraction, x, matrix, target=None):
    format = WinogradFormat(contraction.features, contraction.columns)
    operands = [x, *format.encode(matrix).values()]
    return run(
        winograd(contraction, format, target or host()), operands, contraction.output_shape, target
    )


def exact(contraction, target=None):
    rng = np.random.default_rng(0)
    x, matrix = integers(rng, contraction.input_shape), integers(rng, contraction.matrix_shape)
    return (convolved(contraction, x, matrix, target) == reference(contraction, x, matrix)).all()


# One strip, several, a register tile that overlaps the one before, odd extents, images.
@pytest.mark.grid
@pytest.mark.parametrize(
    "shape",
    [
        (1, 2, 2, 16, 16),
        (1, 7, 7, 32, 48),
        (2, 20, 24, 16, 32),
        (1, 34, 33, 16, 16),
        (1, 26, 46, 48, 64),
        (3, 1, 9, 16, 16),
    ],
    ids=str,
)
def test_exact_on_small_integers(shape):
    assert exact(layer(*shape))


@settings(max_examples=6)
@given(
    st.integers(1, 2), st.integers(1, 30), st.integers(1, 30), st.integers(1, 3), st.integers(1, 3)
)
def test_exact_for_any_extent(batch, height, width, columns, features):
    assert exact(layer(batch, height, width, 16 * columns, 16 * features))


@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    assert exact(layer(1, 9, 10, 16, 32), host(cpu))


@pytest.mark.parametrize("threads", ["2", "3"])
@pytest.mark.parametrize("extent", [14, 28])
def test_several_threads(monkeypatch, threads, extent):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    assert exact(layer(1, extent, extent, 32, 64))


def test_any_batch():
    symbolic = replace(layer(1, 6, 5, 16, 16), lead=(tirx.Var("n", "int64"), 6, 5))
    format = WinogradFormat(16, 16)
    built = build_function(winograd(symbolic, format, host()), host())["main"]
    rng = np.random.default_rng(0)
    matrix = integers(rng, symbolic.matrix_shape)
    values = tvm.runtime.tensor(format.encode(matrix)["values"])
    for batch in (1, 3):
        static = layer(batch, 6, 5, 16, 16)
        x = integers(rng, static.input_shape)
        out = tvm.runtime.tensor(np.zeros(static.output_shape, np.float32))
        built(tvm.runtime.tensor(x), values, out)
        assert (out.numpy() == reference(static, x, matrix)).all()


def test_error_is_bounded_on_reals():
    rng = np.random.default_rng(0)
    contraction = layer(1, 12, 13, 64, 32)
    x = rng.standard_normal(contraction.input_shape, dtype=np.float32)
    matrix = rng.standard_normal(contraction.matrix_shape, dtype=np.float32)
    got = convolved(contraction, x, matrix)
    # A product of a sum of up to 4 activations with one of up to 9 weights, added up over columns.
    ones = replace(contraction, features=1)
    window = reference(ones, np.abs(x), np.ones(ones.matrix_shape, np.float32))
    gamma = (64 + 12) * np.finfo(np.float32).eps
    bound = gamma * window * np.abs(matrix).reshape(32, 9, 64).sum(1).max(-1)
    assert (np.abs(got - reference(contraction, x, matrix)) <= bound).all()


def test_nan_reaches_no_other_window():
    contraction = layer(1, 8, 9, 16, 16)
    x = np.ones(contraction.input_shape, np.float32)
    x[0, 4, 6, 3] = np.nan
    matrix = np.ones(contraction.matrix_shape, np.float32)
    got = convolved(contraction, x, matrix)
    assert (np.isnan(got) == np.isnan(reference(contraction, x, matrix))).all()


@pytest.mark.parametrize(
    "change",
    [
        {"strides": (2, 2), "padded": (17, 17)},
        {"dilation": (2, 2), "padded": (12, 12)},
        {"columns": 24},
        {"features": 20},
        {"depthwise": True},
        {"taps": (3, 1), "padded": (10, 8)},
    ],
    ids=str,
)
def test_other_convolutions_have_none(change):
    contraction = layer(1, 8, 8, 32, 32)
    assert fits(contraction, host())
    assert not fits(replace(contraction, **change), host())


def test_tiles_that_stick_out_are_counted():
    assert work(layer(1, 8, 8, 16, 16)) == 16 / 36
    assert work(layer(1, 7, 7, 16, 16)) == 16 * 16 / (9 * 49)
    (only,) = dense_candidates(layer(1, 1, 1, 16, 16), host())
    assert only.name == "dense"


SIZES = (
    *((1, 1, 1), (1, 1, 9), (1, 2, 2), (1, 7, 7), (1, 8, 12), (1, 9, 13), (2, 14, 14)),
    *((1, 16, 24), (1, 17, 25), (3, 5, 40), (1, 40, 5)),
)
"""Images, rows and columns: parts of a patch, whole ones, one more."""


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("static", [(), (1,), (2,), (0,)], ids=["all", "width", "height", "planes"])
def test_open_planes(monkeypatch, threads, static):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    _exact_at_open_sizes(static, SIZES)


def _exact_at_open_sizes(static, sizes):
    extents = [8 if i in static else tirx.Var(f"n{i}", "int64") for i in range(3)]
    extents = [2 if i == 0 and i in static else e for i, e in enumerate(extents)]
    padded = tuple(e + 2 if isinstance(e, int) else tirx.Var("p", "int64") for e in extents[1:])
    open_layer = replace(layer(1, 8, 8, 16, 32), lead=tuple(extents), padded=padded)
    assert fits(open_layer, host())
    format = WinogradFormat(32, 16)
    built = build_function(winograd(open_layer, format, host()), host())["main"]
    rng = np.random.default_rng(0)
    matrix = integers(rng, open_layer.matrix_shape)
    values = tvm.runtime.tensor(format.encode(matrix)["values"])
    for size in sizes:
        lead = [e if isinstance(e, int) else n for e, n in zip(extents, size, strict=True)]
        closed = layer(*lead, 16, 32)
        x = integers(rng, closed.input_shape)
        out = tvm.runtime.tensor(np.full(closed.output_shape, np.nan, np.float32))
        built(tvm.runtime.tensor(x), values, out)
        assert (out.numpy() == reference(closed, x, matrix)).all(), lead


def test_open_planes_that_nothing_slides_over(monkeypatch):
    monkeypatch.setattr("tvm_sparse.schedules.cpu.winograd.can_slide", lambda *_: False)
    _exact_at_open_sizes((), SIZES[:6])
