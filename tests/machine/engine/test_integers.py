"""Integer operators, on every machine that runs here: exact, whatever the shape and zero point."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integers import TARGETS, as_integers, assert_integers, sparse_bytes
from tests.kernels import host
from tests.machines import changed_machine
from tests.ops.shapes import LEADS, WINDOWS, window
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.dense import DenseTapFormat
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.machine.x86_avx2 import AVX_VNNI
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.ops.contractions.depthwise_taps import depthwise_taps
from tvm_sparse.ops.contractions.joint import joint

pytestmark = pytest.mark.isa
DEPTH = 4
"""Bytes that a lane has side by side."""

ZERO_POINTS = [("uint8", 0), ("uint8", 255), ("int8", -128), ("int8", 127), ("int8", 0)]


def check_dense(c, sparsity=0.0, target=None):
    target = target or host()
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, sparsity)
    assert_integers(c, matrix, dense_format(c, target), dense, target)


def check_balanced(c, bank, sparsity, share=1, target=None):
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, sparsity)
    format = BalancedFormat.of(
        matrix, bank=bank, share=share, segments=math.prod(c.taps), depth=DEPTH
    )
    assert_integers(c, matrix, format, balanced, target)


def check_joint(c, bank, sparsity, keep=4, target=None):
    rng = np.random.default_rng(0)
    matrix = sparse_bytes(rng, c.matrix_shape, sparsity)
    matrix[:, :bank] = 0
    format = CompressedBanksFormat.of(matrix, bank=bank, keep=keep, span=c.columns, depth=DEPTH)
    assert_integers(c, matrix, format, joint, target)


def check_block(c, run, sparsity, group=16, target=None):
    rng = np.random.default_rng(0)
    matrix = sparse_bytes(rng, c.matrix_shape, 0.1)
    kept = rng.random((-(-len(matrix) // 16), matrix.shape[1] // run)) >= sparsity
    matrix *= kept.repeat(16, 0)[: len(matrix)].repeat(run, 1)
    format = CompressedRowsFormat.of(
        matrix, group=group, run=run, tile_rows=group, tile_cols=matrix.shape[1], depth=DEPTH
    )
    assert_integers(c, matrix, format, block, target)


def check_depthwise(c, target=None):
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, 0.3)
    format = DenseTapFormat(*matrix.shape)
    assert_integers(c, matrix, format, lambda c, _, t: depthwise(c, t), target)


def check_taps(c, target=None):
    matrix = sparse_bytes(np.random.default_rng(0), c.matrix_shape, 0.5)
    format = CompressedRowsFormat.of(matrix, group=16, tile_rows=16, tile_cols=math.prod(c.taps))
    assert_integers(c, matrix, format, depthwise_taps, target)


def channels(extents, count):
    return replace(window(extents, count, count), depthwise=True)


def bank(c, target):
    """Return the largest bank that a machine looks up in registers."""
    return engine_of(c.numerics, target).banks[-1]


CHECKS = {
    "dense": lambda c, t: check_dense(c, 0.5, t),
    "balanced": lambda c, t: check_balanced(c, bank(c, t), 0.9, target=t),
    "joint": lambda c, t: check_joint(c, bank(c, t), 0.9, 4, target=t),
    "block": lambda c, t: check_block(c, 8, 0.7, target=t),
}


ONCE = [pytest.param(name, marks=pytest.mark.slow) if name == "AVX" else name for name in TARGETS]
"""The machines; plain code in wide vectors takes long to compile, and is the same on AVX."""


@pytest.mark.grid
@pytest.mark.parametrize("activation", ["uint8", "int8"])
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("machine", ONCE)
def test_every_format_on_every_machine(machine, check, activation):
    c = as_integers(Contraction((3,), 128, 21), activation, zero_point=100)
    CHECKS[check](c, TARGETS[machine])


@pytest.mark.isa("avx512vnni", "avx512vl")
@pytest.mark.parametrize("check", CHECKS)
def test_every_format_with_avx_vnni(check):
    """AVX-512 has its product of 256 bits, too: the code is the same but for the encoding."""
    names = ("register_bits", "sums", "widths", "lookups", "dots", "code")
    with changed_machine(**{name: getattr(AVX_VNNI, name) for name in names}):
        c = as_integers(Contraction((3,), 128, 21), "int8", zero_point=100)
        CHECKS[check](c, host())


@pytest.mark.grid
@pytest.mark.parametrize("activation", ["uint8", "int8"])
@pytest.mark.parametrize("machine", TARGETS)
def test_depthwise_on_every_machine(machine, activation):
    for count in (32, 5):
        c = as_integers(channels(WINDOWS[0], count), activation, zero_point=-7 % 128)
        check_depthwise(c, TARGETS[machine])
    check_taps(as_integers(channels(WINDOWS[0], 32), activation, zero_point=3), TARGETS[machine])


@pytest.mark.parametrize(("activation", "zero_point"), ZERO_POINTS)
@pytest.mark.parametrize("check", CHECKS)
def test_zero_points_at_both_ends(check, activation, zero_point):
    CHECKS[check](as_integers(Contraction((3,), 64, 20), activation, zero_point), host())


@pytest.mark.grid
@pytest.mark.parametrize("lead", LEADS, ids=str)
@pytest.mark.parametrize(("columns", "features"), [(1, 1), (3, 15), (5, 16), (67, 17), (64, 37)])
def test_dense_of_any_shape(lead, columns, features):
    check_dense(as_integers(Contraction(lead, columns, features), "int8", -5))


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize("columns", [1, 3, 4, 18])
def test_dense_convolutions(extents, columns):
    check_dense(as_integers(window(extents, columns, 20), "uint8", 9))


@pytest.mark.grid
@pytest.mark.parametrize("lead", LEADS[::2], ids=str)
@pytest.mark.parametrize("columns", [64, 65, 127, 200])
def test_balanced_of_any_shape(lead, columns):
    check_balanced(as_integers(Contraction(lead, columns, 21), "uint8", 1), 64, 0.9)


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
@pytest.mark.parametrize(("columns", "bank"), [(16, 16), (24, 16), (48, 32), (64, 64), (96, 64)])
def test_balanced_convolutions(extents, columns, bank):
    check_balanced(as_integers(window(extents, columns, 20), "int8", 4), bank, 0.8)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("bank", [16, 32, 64])
def test_banks_of_any_fullness(bank, sparsity):
    check_balanced(as_integers(Contraction((6,), 128, 32)), bank, sparsity)


@pytest.mark.grid
@pytest.mark.parametrize("keep", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("share", [1, 2])
@pytest.mark.parametrize(
    "contraction", [Contraction((9,), 192, 64), window(WINDOWS[0], 64, 32)], ids=["rows", "window"]
)
def test_banks_in_parts(keep, share, contraction):
    rng, c = np.random.default_rng(keep), as_integers(contraction)
    rows, columns = c.matrix_shape
    kept = rng.random((rows // (16 * share), 1, 16, columns // 16, 16)).argsort(-1) < keep
    matrix = sparse_bytes(rng, c.matrix_shape, 0.0) | 1
    matrix *= np.broadcast_to(kept, (len(kept), share, *kept.shape[2:])).reshape(rows, columns)
    segments = math.prod(c.taps)
    format = BalancedFormat.of(
        matrix, bank=64, share=share, segments=segments, depth=DEPTH, parts=4
    )
    assert (format.parts, format.keep) == (4, 4 * keep)
    assert_integers(c, matrix, format, balanced)


@pytest.mark.parametrize("share", [2, 4])
def test_rows_share_columns(share):
    check_balanced(as_integers(Contraction((6,), 128, 70)), 64, 0.97, share)


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_tables_of_convolutions(extents):
    c = as_integers(window(extents, 64, 20), "uint8", 77)
    check_joint(c, 64, 0.9, 8)
    check_joint(c, 16, 0.9)
    check_block(c, 4, 0.8)
    check_block(c, 32, 0.8, group=32)


@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_depthwise_convolutions(extents):
    for count in (7, 48):
        check_depthwise(as_integers(channels(extents, count), "int8", -128))


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_groups_of_channels(extents):
    c = replace(as_integers(window(extents, 64, 64), "int8", 33), groups=2)
    check_dense(c)
    check_dense(replace(c, columns=6))
    check_balanced(c, 64, 0.9)
    check_joint(c, 16, 0.9)
    check_block(c, 4, 0.8)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 150),
    st.integers(1, 50),
    st.floats(0, 1),
    st.sampled_from(["uint8", "int8"]),
    st.integers(0, 127),
)
def test_any_linear(rows, columns, features, sparsity, activation, zero_point):
    c = as_integers(Contraction((rows,), columns, features), activation, zero_point)
    check_dense(c, sparsity)
    for bank in (16, 32, 64):
        if columns >= bank:
            check_balanced(c, bank, sparsity)
