"""Functions with parallel loops are kernels on GPUs, and right: their PTX is executed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.testing import emulate

pytestmark = needs_nvrtc

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

FUNCTIONS = {
    "linalg_lu_factor_ex": torch.linalg.inv,
    "cummax": lambda x: x.cummax(1).values,
    "gcd": lambda x: torch.gcd((x * 9).long(), (x * 5).long() + 1),
    "special_hermite_polynomial_h": lambda x: torch.special.hermite_polynomial_h(x, 3),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.reshape(1, -1, x.shape[-1]), 2),
    "unfold, written without threads": lambda x: F.unfold(x.reshape(1, 1, -1, 2), (2, 1)),
}


class Use(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.grid
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(4, 4), (70, 3, 3)])
def test_parallel_loops_are_threads(name, shape):
    torch.manual_seed(0)
    x, model = torch.randn(shape) + 4 * torch.eye(shape[-1]), Use(FUNCTIONS[name])
    found = emulate(ts.compile(model, (x,), target="cuda:sm_90", config=CONFIG), x)
    assert not found.report.findings
    (output,) = found.outputs
    torch.testing.assert_close(torch.as_tensor(output), model(x), rtol=1e-4, atol=1e-5)
