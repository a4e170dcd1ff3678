"""Depthwise kernels with pruned taps against the naive reference: exact on small integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers, run
from tests.ops.shapes import WINDOWS
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.depthwise_taps import depthwise_taps


def assert_exact(extents, channels, lanes, sparsity, target=None):
    lead, taps, strides, dilation, padded = extents
    contraction = Contraction(
        lead, channels, channels, taps, strides, dilation, padded, depthwise=True
    )
    rng = np.random.default_rng(1)
    matrix = integers(rng, contraction.matrix_shape, sparsity)
    format = CompressedRowsFormat.of(
        matrix, group=lanes, tile_rows=lanes, tile_cols=matrix.shape[1]
    )
    x = integers(rng, contraction.input_shape)
    operands = [x, *format.encode(matrix).values()]
    func = depthwise_taps(contraction, format, host())
    got = run(func, operands, contraction.output_shape, target)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize(("channels", "lanes"), [(16, 16), (48, 16), (24, 8), (40, 8)])
def test_windows_and_channels(extents, channels, lanes):
    assert_exact(extents, channels, lanes, 0.9)


@pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.5, 0.75, 0.95, 1.0])
def test_every_sparsity(sparsity):
    assert_exact(WINDOWS[0], 32, 16, sparsity)


@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    assert_exact(WINDOWS[1], 32, 16, 0.9, host(cpu))


@settings(max_examples=10)
@given(
    size=st.integers(1, 17),
    taps=st.sampled_from([(3, 3), (5, 5), (7, 7), (1, 3)]),
    stride=st.integers(1, 3),
    groups=st.integers(1, 4),
    sparsity=st.floats(0.5, 1),
)
def test_any_plane(size, taps, stride, groups, sparsity):
    padded = tuple((size - 1) * stride + k for k in taps)
    extents = ((1, size, size), taps, (stride, stride), (1, 1), padded)
    assert_exact(extents, 16 * groups, 16, sparsity)
