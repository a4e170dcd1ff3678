"""The rule for compressed rows inside compiled modules: whatever epilogue, any batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.schedules.layers import (
    MODULES,
    assert_like_torch,
    assert_like_torch_for_any_batch,
    prune,
)


@pytest.mark.parametrize("build", MODULES, ids=lambda build: build.__name__)
def test_epilogues(build):
    model, x = build()
    prune(model, 1, 1, 0.8)
    library = assert_like_torch(model, x, "unstructured")
    assert {d.chosen for d in library.decisions} == {"unstructured"}


@pytest.mark.parametrize("block", [(4, 4), (8, 1), (2, 8)], ids=str)
def test_small_blocks(block):
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 40))
    prune(model, *block, 0.8)
    assert_like_torch(model, torch.randn(48, 64), "block")


def test_dynamic_batch():
    assert_like_torch_for_any_batch((1, 1), 0.7, "unstructured")
