"""The operator on compressed rows against the naive reference: exact on small integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers, run
from tests.ops.shapes import LEADS, WINDOWS, window
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.contractions.compressed_rows import compressed_rows
from tvm_sparse.ops.contractions.contraction import Contraction, reference


def assert_exact(contraction, sparsity, vectors=2, target=None, **extents):
    rng = np.random.default_rng(1)
    matrix = integers(rng, contraction.matrix_shape, sparsity)
    format = CompressedRowsFormat.of(matrix, **extents)
    x = integers(rng, contraction.input_shape)
    func = compressed_rows(contraction, format, host(), vectors)
    operands = [x, *format.encode(matrix).values()]
    got = run(func, operands, contraction.output_shape, target)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.grid
@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_leading_shapes(lead):
    assert_exact(Contraction(lead, 48, 40), 0.8)


@pytest.mark.grid
@pytest.mark.parametrize("features", [1, 15, 17, 31, 97])
@pytest.mark.parametrize("columns", [16, 17, 31, 48])
def test_shapes_that_no_tile_divides(features, columns):
    assert_exact(Contraction((5,), columns, features), 0.7, tile_rows=32, tile_cols=16)


@pytest.mark.grid
@pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_every_sparsity(sparsity):
    assert_exact(Contraction((33,), 40, 24), sparsity)


@pytest.mark.grid
@pytest.mark.parametrize("vectors", [1, 3, 4])
@pytest.mark.parametrize(("group", "step"), [(1, 1), (4, 4), (8, 1), (2, 8), (16, 1)])
def test_groups_and_runs(vectors, group, step):
    assert_exact(Contraction((70,), 64, 48), 0.95, vectors, group=group, run=step, tile_cols=32)


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize("columns", [16, 21])
def test_convolutions(extents, columns):
    assert_exact(window(extents, columns, 24), 0.8)


@pytest.mark.grid
@pytest.mark.parametrize("lead", [(16,), (70,), (1, 9, 16)], ids=str)
def test_layers_that_are_worth_threads(lead):
    assert_exact(Contraction(lead, 256, 512), 0.3, tile_rows=64)


@pytest.mark.grid
@pytest.mark.parametrize("sparsity", [0.3, 0.75])
@pytest.mark.parametrize("vectors", [1, 2, 4])
@pytest.mark.parametrize(("columns", "tile"), [(600, 256), (600, 300), (70000, 70000)])
def test_long_slots_of_every_type_of_column(columns, tile, vectors, sparsity):
    assert_exact(Contraction((17,), columns, 19), sparsity, vectors, tile_cols=tile)


@pytest.mark.grid
@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    assert_exact(Contraction((20,), 160, 16), 0.5, target=host(cpu))


@settings(max_examples=5)
@given(
    rows=st.integers(1, 80),
    features=st.integers(1, 70),
    columns=st.integers(16, 60),
    vectors=st.sampled_from([1, 2, 4]),
    sparsity=st.floats(0, 1),
)
def test_any_shape(rows, features, columns, vectors, sparsity):
    assert_exact(Contraction((rows,), columns, features), sparsity, vectors)
