import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.testing import emulate


class Means(nn.Module):
    """Squeeze: the same halves are reduced in fp32 and read again."""

    def forward(self, x):
        wide = x.float()
        return (wide - wide.mean((2, 3), keepdim=True)).half()


class Largest(nn.Module):
    def forward(self, x):
        return x.float().amax((2, 3)).half()


MODELS = {"mean": Means(), "maximum": Largest(), "pool": nn.AvgPool2d(5), "softmax": nn.Softmax(-1)}


@pytest.mark.grid
@pytest.mark.parametrize("name", MODELS)
def test_no_kernel_writes_widened_halves(name):
    x = torch.randn(2, 8, 10, 20, generator=torch.Generator().manual_seed(0)).half()
    model = MODELS[name].eval()
    library = ts.compile(model, (x,), target="cuda:sm_90")
    first = library.kernels[0]
    assert first.function.startswith(("fused_cast_", "fused_softmax"))
    (got,), report = (found := emulate(library, x.numpy())).outputs, found.report
    assert not report.findings
    assert abs(torch.from_numpy(got).float() - model(x).float()).max() < 2e-3
