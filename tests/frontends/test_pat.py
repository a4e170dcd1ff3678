"""Modules that torchao's optimizer for training with pruning (PAT) has left zeros in."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts


@pytest.mark.filterwarnings("ignore")
def test_zeros_of_a_pruning_optimizer_are_found():
    pat = pytest.importorskip("torchao.prototype.pat")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    pruned = {"params": [model[0].weight], "group_type": "ElemGrouper", "prox_type": "ProxLasso"}
    rest = {"params": [p for p in model.parameters() if p is not model[0].weight]}
    optimizer = pat.PruneOptimizer(torch.optim.SGD([pruned, rest], lr=0.1), reg_lambda=0.3)
    x, wanted = torch.randn(32, 64), torch.randn(32, 8)
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), wanted).backward()
        optimizer.step()
    zeros = float((model[0].weight == 0).float().mean())
    assert zeros > 0.5
    library = ts.compile(model.eval(), (x,), config=ts.Config(measure=False))
    assert library.decisions.records[0].sparsity == pytest.approx(zeros)
    with torch.no_grad():
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)
