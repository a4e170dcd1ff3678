"""When groups of rows that share single columns are stored so, and what the model says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.integers import as_integers
from tests.kernels import host, integers
from tvm_sparse.base.numerics import BFLOATS
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.block import block_candidates

pytestmark = pytest.mark.isa
LINEAR = Contraction((128,), 256, 256)
BYTES, HALVES = as_integers(LINEAR), replace(LINEAR, numerics=BFLOATS[0])


def columns(shape, group, kept=0.125, run=1):
    rng = np.random.default_rng(0)
    each = rng.random((-(-shape[0] // group), shape[1] // run)) < kept
    return integers(rng, shape) * each.repeat(group, 0)[: shape[0]].repeat(run, 1)


def offered(c, matrix):
    matrix = matrix.astype(np.int8) if c.numerics == BYTES.numerics else matrix
    (found,) = (k for k in block_candidates(c, Scan(matrix), host()) if k.name != "block_tiles")
    return found


def inner(candidate):
    return getattr(candidate.format, "inner", candidate.format)


@pytest.mark.parametrize("c", [BYTES, HALVES], ids=["bytes", "halves"])
@pytest.mark.parametrize("group", [16, 32])
def test_groups_that_share_columns_are_found(c, group):
    matrix = columns(c.matrix_shape, group)
    found = offered(c, matrix)
    assert found.name == "block"
    assert isinstance(inner(found), SharedColumnsFormat)
    assert inner(found).group == LANES
    share = np.count_nonzero(matrix) / matrix.size
    assert share <= found.work < share + 0.03
    assert found.cost < 0.3


def test_blocks_stay_blocks():
    assert isinstance(
        inner(offered(BYTES, columns(BYTES.matrix_shape, 16, run=4))), CompressedRowsFormat
    )


def test_columns_need_be_no_multiple_of_what_a_lane_takes():
    c = replace(BYTES, columns=67)
    assert isinstance(inner(offered(c, columns(c.matrix_shape, 16))), SharedColumnsFormat)


@pytest.mark.parametrize("c", [replace(BYTES, lead=(1,)), replace(BYTES, groups=2)])
def test_few_rows_and_groups_of_channels_have_none(c):
    assert isinstance(inner(offered(c, columns(c.matrix_shape, 16))), CompressedRowsFormat)
