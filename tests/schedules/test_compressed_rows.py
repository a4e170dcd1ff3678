"""The rule for compressed rows inside compiled modules: whatever epilogue, any batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.schedules.layers import (
    MODULES,
    assert_like_torch,
    assert_like_torch_for_any_batch,
    prune,
)


@pytest.mark.grid
@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues(build):
    model, x = build()
    prune(model, 1, 1, 0.8)
    library = assert_like_torch(model, x, "unstructured")
    assert {d.chosen for d in library.decisions} == {"unstructured"}


@pytest.mark.grid
@pytest.mark.parametrize("block", [(4, 4), (8, 1), (2, 8)], ids=str)
def test_small_blocks(block):
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 40))
    prune(model, *block, 0.8)
    assert_like_torch(model, torch.randn(48, 64), "block")


@pytest.mark.grid
@pytest.mark.parametrize("rows", [14, 15, 16, 31])
def test_rows_for_each_of_an_open_batch(rows):
    """TVM does not prove how many tiles there are for some of them: blocks are stored elsewise."""
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU()).eval().requires_grad_(False)
    prune(model, 4, 4, 0.8)
    shapes = ({0: torch.export.Dim("batch", min=1, max=9)},)
    config = ts.Config(measure=False, cache=False, tuned=False)
    library = ts.compile(model, (torch.rand(2, rows, 32),), dynamic_shapes=shapes, config=config)
    for batch in (1, 2, 9):
        x = torch.rand(batch, rows, 32)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_dynamic_batch():
    assert_like_torch_for_any_batch((1, 1), 0.7, "unstructured")
