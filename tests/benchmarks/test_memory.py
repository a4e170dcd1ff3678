import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.papers.memory import planned_bytes


def test_storages_that_never_live_together_are_shared():
    model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Linear(512, 8))
    x = torch.zeros(16, 64)
    library = ts.compile(model.eval(), (x,), config=ts.Config(measure=False))
    wide = 16 * 512 * 4
    assert 2 * wide <= planned_bytes(library, x) < 3 * wide
