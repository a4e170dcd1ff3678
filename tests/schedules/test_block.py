"""The rule for blocks inside compiled modules: whatever epilogue, any batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tvm import s_tir

import tvm_sparse as ts
from tests.schedules.layers import (
    MODULES,
    assert_like_torch,
    assert_like_torch_for_any_batch,
    linear_residual,
    prune,
    squeeze_excite,
)
from tvm_sparse.base.numerics import INTEGERS
from tvm_sparse.base.targets import parse_target
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.record import Caches
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.schedules.cpu.block import default_rows, leave_room


@pytest.mark.grid
@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues(build):
    model, x = build()
    prune(model, 16, 4, 0.6)
    library = assert_like_torch(model, x, "block")
    assert {d.chosen for d in library.decisions} == {"block"}


@pytest.mark.grid
@pytest.mark.parametrize("build", [linear_residual, squeeze_excite], ids=lambda b: b.__name__)
def test_epilogues_behind_lookups(build):
    model, x = build()
    prune(model, 16, 16, 0.4)
    library = assert_like_torch(model, x, "joint")
    assert "joint" in {d.chosen for d in library.decisions}


def test_depthwise_taps():
    layers = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Hardswish(), nn.Conv2d(32, 16, 1)
    model = nn.Sequential(*layers)
    model[0].weight.data[:, :, 0] = 0
    model[0].weight.data[16:, :, :, 2] = 0
    config = ts.Config(measure=False, force={"0": "depthwise_taps"})
    x = torch.randn(1, 32, 9, 8)
    library = ts.compile(model, (x,), config=config)
    assert next(iter(library.decisions)).chosen == "depthwise_taps"
    assert np.allclose(library(x).numpy(), model(x).detach().numpy(), atol=1e-5)


def test_dynamic_batch():
    assert_like_torch_for_any_batch((16, 16), 0.5, "block")


@pytest.mark.parametrize(
    ("extent", "vectors", "rows"),
    [(128, 1, 8), (128, 4, 4), (14, 1, 7), (13, 1, 8), (1, 1, 1), (None, 1, 1), (6, 16, 1)],
)
def test_default_rows(extent, vectors, rows):
    assert default_rows(extent, vectors, 16) == rows


@pytest.mark.parametrize(
    ("columns", "kept", "first", "rows"),
    [
        (4096, 64, 32 << 10, 4),
        (2048, 64, 32 << 10, 8),  # eight rows leave half of the cache
        (4096, 64, 48 << 10, 8),  # a larger one
        (8192, 64, 32 << 10, 8),  # four rows fill it, too
        (4096, 4096, 32 << 10, 8),  # weights that the second cache does not hold
    ],
)
def test_rows_leave_room_in_the_first_cache(columns, kept, first, rows):
    c = Contraction((128,), columns, 256, numerics=INTEGERS[0])
    matrix = np.zeros((256, columns), np.int8)
    matrix[:, :kept] = 1
    format = CompressedRowsFormat.of(matrix, group=16, run=4, tile_rows=16, depth=4)
    schedule = s_tir.Schedule(block(c, format, parse_target("cpu:znver4").target))
    anchor = schedule.get_sblock("contract")
    caches = Caches(first=first, second=1 << 20)
    assert leave_room(schedule, anchor, 8, caches) == rows
