"""Models that nncf has pruned, where it is installed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.mark.filterwarnings("ignore")
def test_its_masks_are_part_of_the_weights():
    nncf = pytest.importorskip("nncf")
    torch.manual_seed(0)
    x, mode = torch.randn(2, 16), nncf.PruneMode.UNSTRUCTURED_MAGNITUDE_GLOBAL
    pruned = nncf.prune(Network().eval(), mode=mode, ratio=0.75, examples_inputs=x)
    assert ts.inspect(pruned).sparsity == pytest.approx(0.75, abs=0.01)
    library = ts.compile(pruned, (x,), config=ts.Config(measure=False))
    with torch.no_grad():
        torch.testing.assert_close(library(x), pruned(x), rtol=1e-4, atol=1e-5)
    assert sum(d.sparsity for d in library.decisions) > 1
