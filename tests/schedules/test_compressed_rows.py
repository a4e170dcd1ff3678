"""The rule for compressed rows inside compiled modules: whatever epilogue, any batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.schedules.layers import MODULES, check, prune


@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues(build):
    model, x = build()
    prune(model, 1, 1, 0.8)
    library = check(model, x, "unstructured")
    assert {d.chosen for d in library.decisions} == {"unstructured"}


@pytest.mark.parametrize("block", [(4, 4), (8, 1), (2, 8)], ids=str)
def test_small_blocks(block):
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 40))
    prune(model, *block, 0.8)
    check(model, torch.randn(48, 64), "block")


def test_dynamic_batch():
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU())
    prune(model, 1, 1, 0.7)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (torch.randn(20, 32),), dynamic_shapes=({0: batch},))
    library = ts.compile(program, config=ts.Config(measure=False, force={"*": "unstructured"}))
    for rows in (1, 16, 50):
        x = torch.randn(rows, 32)
        expected = model(x).detach().numpy()
        assert np.allclose(library(x).numpy(), expected, atol=1e-5)
