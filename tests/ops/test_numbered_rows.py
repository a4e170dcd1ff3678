"""Positions that are one axis: every image, batch and number of threads gives the same sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.integers import as_integers
from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.ops.contractions.numbered_rows import NumberedRows
from tvm_sparse.schedules.cpu import cores

EXTENT = st.integers(1, 9)
FEATURES = (1, 8, 16, 24, 80)


def pointwise(batch, height, width, columns=64, features=80):
    lead = (batch, height, width)
    return Contraction(lead, columns, features, (1, 1), (1, 1), (1, 1), (height, width))


def sums(c, func, format, matrix, x):
    operands = [x.astype(c.dtype), *format.encode(matrix).values()]
    return run(func, operands, c.output_shape, host(), c.out_dtype)


def check(c):
    rng = np.random.default_rng(0)
    kept = keep_of_bank(rng, c.matrix_shape, 4)
    depth = {"bank": 64, "depth": 4} if c.dtype == "uint8" else {}
    weight = kept.astype(c.numerics.weight)
    format = BalancedFormat.of(weight, **depth)
    x = np.abs(integers(rng, c.input_shape))
    expected = reference(c, x, kept)
    got = sums(c, balanced(c, format, host()), format, weight, x)
    np.testing.assert_array_equal(got, expected)
    plain = dense_format(c, host())
    np.testing.assert_array_equal(sums(c, dense(c, plain, host()), plain, weight, x), expected)


@settings(max_examples=10)
@given(st.integers(1, 3), EXTENT, EXTENT, st.sampled_from(FEATURES), st.booleans())
def test_every_image(batch, height, width, features, narrow):
    c = pointwise(batch, height, width, features=features)
    check(as_integers(c) if narrow else c)


@pytest.mark.grid
@pytest.mark.parametrize("threads", ["2", "3"])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(
    "lead", [(1, 1, 1), (1, 2, 3), (2, 6, 6), (1, 3, 7), (1, 12, 1), (3, 2, 2)]
)
def test_threads(lead, features, threads, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", threads)
    monkeypatch.setattr(cores, "PARALLEL_FLOPS", 0)
    check(as_integers(pointwise(*lead, features=features)))
    check(pointwise(*lead, features=features))


@pytest.mark.parametrize(
    ("change", "extents"),
    [
        ({}, (2, 42)),
        ({"taps": (3, 3), "padded": (8, 9)}, (2, 6, 7)),
        ({"strides": (2, 2), "padded": (11, 13)}, (2, 6, 7)),
        ({"padded": (7, 7)}, (2, 6, 7)),
        ({"borders": (1, 1), "padded": (4, 5)}, (2, 6, 7)),
    ],
    ids=str,
)
def test_only_positions_of_their_own_are_numbered(change, extents, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    c = replace(pointwise(2, 6, 7), **change)
    assert NumberedRows.of(c, host(), numbered=True).extents == extents
    assert NumberedRows.of(c, host(), numbered=False).extents == (2, 6, 7)


def test_parts_are_as_many_as_threads(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    rows = NumberedRows.of(pointwise(2, 6, 7), host(), numbered=True)
    assert rows.extents == (2, 2, 21)
    assert NumberedRows.of(pointwise(2, 3, 7), host(), numbered=True).extents == (2, 3, 7)
    partial = pointwise(2, 6, 7, features=24)
    assert NumberedRows.of(partial, host(), numbered=True).extents == (2, 6, 7)
    place = [tirx.const(i, "int64") for i in (1, 4, 3)]
    assert [int(i) for i in rows.numbered(place)] == [1, 1, 10]
    assert [int(i) for i in rows.lead(rows.numbered(place))] == [1, 4, 3]


def test_symbolic_extents_keep_their_axes():
    c = replace(pointwise(1, 4, 4), lead=(1, tirx.Var("h", "int64"), 4))
    assert NumberedRows.of(c, host(), numbered=True).extents == c.lead
