"""The block operator against the naive reference: exact on small integers, every shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers, run
from tests.ops.shapes import LEADS, WINDOWS, window
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.contraction import Contraction, reference


def assert_exact(contraction, sparsity, group=16, step=4, target=None):
    rng = np.random.default_rng(1)
    features, columns = contraction.matrix_shape
    kept = rng.random((-(-features // group), columns // step)) >= sparsity
    kept = kept.repeat(group, 0).repeat(step, 1)[:features]
    matrix = integers(rng, contraction.matrix_shape) * kept
    format = CompressedRowsFormat.of(
        matrix, group=group, run=step, tile_rows=group, tile_cols=columns
    )
    x = integers(rng, contraction.input_shape)
    operands = [x, *format.encode(matrix).values()]
    got = run(
        block(contraction, format, target or host()), operands, contraction.output_shape, target
    )
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_leading_shapes(lead):
    assert_exact(Contraction(lead, 48, 40), 0.6)


@pytest.mark.parametrize("features", [1, 15, 16, 17, 31, 64, 97])
def test_features_that_no_block_divides(features):
    assert_exact(Contraction((5,), 32, features), 0.5)


@pytest.mark.grid
@pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize(("group", "step"), [(16, 1), (16, 16), (32, 8), (64, 2)])
def test_every_sparsity_and_block(sparsity, group, step):
    assert_exact(Contraction((9,), 64, 128), sparsity, group, step)


@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize(("columns", "step"), [(16, 16), (6, 2), (3, 3)])
def test_convolutions(extents, columns, step):
    assert_exact(window(extents, columns, 24), 0.6, step=step)


@pytest.mark.parametrize("lead", [(16,), (70,), (128,), (17, 9)], ids=str)
def test_layers_that_are_worth_threads(lead):
    assert_exact(Contraction(lead, 256, 512), 0.3)


@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    assert_exact(Contraction((6,), 64, 32), 0.5, target=host(cpu))


@settings(max_examples=12)
@given(
    rows=st.integers(1, 40),
    features=st.integers(1, 90),
    steps=st.integers(1, 12),
    step=st.sampled_from([1, 3, 8]),
    group=st.sampled_from([16, 32, 48]),
    sparsity=st.floats(0, 1),
)
def test_any_shape(rows, features, steps, step, group, sparsity):
    assert_exact(Contraction((rows,), steps * step, features), sparsity, group, step)
