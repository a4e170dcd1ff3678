"""Rows that share columns, of bytes and of bfloat16, against the naive reference: exact."""

from __future__ import annotations

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx

from tests.integers import TARGETS, as_integers, assert_integers, sparse_bytes
from tests.kernels import host, integers, run
from tests.ops.shapes import LEADS, WINDOWS, window
from tvm_sparse.base.numerics import BFLOATS
from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.shared_columns import shared_columns
from tvm_sparse.schedules.build import build_function
from tvm_sparse.schedules.cpu import cores
from tvm_sparse.selection.narrow import stored

pytestmark = pytest.mark.isa


def shared(shape, sparsity, group=16):
    """Return the flags of weights whose groups of rows share columns."""
    kept = np.random.default_rng(2).random((-(-shape[0] // group), shape[1])) >= sparsity
    return kept.repeat(group, 0)[: shape[0]]


def check(c, sparsity, group=16, target=None):
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, 0.1)
    matrix *= shared(matrix.shape, sparsity, group)
    taps = math.prod(c.taps)
    format = SharedColumnsFormat.of(matrix, group=group, depth=4, taps=taps)
    assert_integers(c, matrix, format, shared_columns, target)


@pytest.mark.grid
@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_leading_shapes(lead):
    check(as_integers(Contraction(lead, 48, 40), "int8", -5), 0.6)


@pytest.mark.grid
@pytest.mark.parametrize(("columns", "features"), [(16, 1), (17, 15), (67, 17), (31, 97)])
def test_shapes_that_no_tile_divides(columns, features):
    check(as_integers(Contraction((5,), columns, features), "uint8", 9), 0.5)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("sparsity", "group"), [(0.0, 16), (0.9, 16), (1.0, 16), (0.5, 32), (0.9, 64)]
)
def test_every_sparsity_and_group(sparsity, group):
    check(as_integers(Contraction((33,), 64, 128)), sparsity, group=group)


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_convolutions(extents):
    check(as_integers(window(extents, 21, 24), "uint8", 77), 0.8)


@pytest.mark.grid
@pytest.mark.parametrize("machine", [name for name in TARGETS if name != "AVX"])
def test_every_machine(machine):
    check(as_integers(Contraction((18,), 24, 21), "int8", 3), 0.5, target=TARGETS[machine])


@pytest.mark.grid
@pytest.mark.parametrize("rows", [128, 70, 20])
def test_layers_that_are_worth_threads(rows, monkeypatch):
    monkeypatch.setattr(cores, "PARALLEL_FLOPS", 0)
    check(as_integers(Contraction((rows,), 256, 512)), 0.7)


@pytest.mark.grid
@pytest.mark.parametrize("numerics", BFLOATS, ids=lambda n: n.output)
@pytest.mark.parametrize("columns", [20, 40, 64])
def test_halves(numerics, columns):
    c = replace(Contraction((70,), columns, 48), numerics=numerics)
    matrix = integers(np.random.default_rng(0), c.matrix_shape) * shared(c.matrix_shape, 0.6)
    inner = SharedColumnsFormat.of(matrix, depth=2)
    x = integers(np.random.default_rng(1), c.input_shape).astype(ml_dtypes.bfloat16)
    func = shared_columns(c, inner, host())
    operands = [x, *stored(inner, c, host()).encode(matrix).values()]
    got = run(func, operands, c.output_shape, dtype=c.out_dtype)
    expected = reference(c, x.astype(np.float32), matrix).astype(got.dtype)
    np.testing.assert_array_equal(got, expected)


def test_a_symbolic_batch():
    n = tirx.Var("n", "int64")
    c = as_integers(Contraction((n, 16), 32, 32), "uint8", 3)
    matrix = sparse_bytes(np.random.default_rng(0), (32, 32), 0.1) * shared((32, 32), 0.5)
    inner = SharedColumnsFormat.of(matrix, depth=4)
    arrays = stored(inner, c, host()).encode(matrix).values()
    built = build_function(shared_columns(c, inner, host()), host())["main"]
    for batch in (1, 3):
        own = replace(c, lead=(batch, 16))
        x = np.random.default_rng(1).integers(0, 256, own.input_shape, np.uint8)
        out = tvm.runtime.empty(own.output_shape, "int32")
        built(*map(tvm.runtime.tensor, (x, *arrays)), out)
        np.testing.assert_array_equal(out.numpy(), reference(own, x, matrix))


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(
    rows=st.integers(1, 80),
    columns=st.integers(16, 90),
    features=st.integers(1, 70),
    sparsity=st.floats(0, 1),
    activation=st.sampled_from(["uint8", "int8"]),
)
def test_any_shape(rows, columns, features, sparsity, activation):
    c = as_integers(Contraction((rows,), columns, features), activation, 5)
    check(c, sparsity)
