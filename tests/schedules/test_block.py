"""The rule for blocks inside compiled modules: whatever epilogue, any batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.schedules.layers import (
    MODULES,
    assert_like_torch,
    assert_like_torch_for_any_batch,
    linear_residual,
    prune,
    squeeze_excite,
)
from tvm_sparse.schedules.cpu.block import default_rows


@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues(build):
    model, x = build()
    prune(model, 16, 4, 0.6)
    library = assert_like_torch(model, x, "block")
    assert {d.chosen for d in library.decisions} == {"block"}


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
