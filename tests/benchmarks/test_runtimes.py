import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.papers.runtimes import dense_runtimes


@pytest.mark.filterwarnings("ignore")  # of the exporters
def test_all_runtimes_compute_the_same():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    x = torch.rand(1, 3, 8, 8)
    found = dense_runtimes(model, x)
    assert "torch eager" in found
    for program in found.values():
        np.testing.assert_allclose(program(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
