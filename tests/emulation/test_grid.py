"""Storages, odd shapes, borders, epilogues and dynamic batches: executed, and equal to PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.frontends.load import load
from tvm_sparse.testing import emulate

pytestmark = [pytest.mark.slow, needs_nvrtc]

DTYPES = [torch.float32, torch.float16]


def integers(model):
    """Give parameters small integers, 70 % of the weights zero, so that sums are exact."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.randint(-1, 2, parameter.shape, generator=generator).float()
            if parameter.dim() > 1:
                values *= torch.rand(parameter.shape, generator=generator) < 0.3
            parameter.copy_(values)
    return model.eval()


def check(model, x, force, batches=(None,)):
    """Compile with forced storages and compare what is executed with PyTorch, exactly."""
    dynamic = batches != (None,)
    source = load(model, (x,), dynamic_batch=True) if dynamic else model
    inputs = () if dynamic else ((x,),)
    config = ts.Config(force=force)
    library = ts.compile(source, *inputs, target="cuda:sm_90", config=config)
    assert {d.layer: d.chosen for d in library.decisions}.items() >= force.items()
    for batch in batches:
        part = x if batch is None else x[:batch]
        emulation = emulate(library, part.numpy())
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted = model(part)
        got = torch.from_numpy(emulation.outputs[0].astype("f4"))
        assert torch.equal(got, wanted.float())


def sample(shape, dtype):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


class Branch(nn.Module):
    """A layer with activation and residual behind it, rounded to a few values again."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y = torch.clamp(torch.relu(self.layer(x)), 0, 2)
        return y + x if y.shape == x.shape else y


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("storage", ["dense", "balanced"])
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_linear(rows, storage, dtype):
    shapes = [(67, 40), (40, 40), (40, 129)]
    model = integers(nn.Sequential(*(Branch(nn.Linear(*shape)) for shape in shapes)))
    force = {f"{i}.layer": storage for i in range(3)}
    check(model.to(dtype), sample((rows, 67), dtype), force)


@pytest.mark.parametrize("storage", ["dense", "balanced"])
def test_dynamic_batch(storage):
    model = integers(nn.Sequential(Branch(nn.Linear(48, 64)), Branch(nn.Linear(64, 64))))
    force = {f"{i}.layer": storage for i in range(2)}
    check(model, sample((40, 48), torch.float32), force, batches=(1, 3, 40))


CONVOLUTIONS = {
    "3x3": {"kernel_size": 3, "padding": 1},
    "strided": {"kernel_size": 3, "padding": 1, "stride": 2},
    "dilated": {"kernel_size": 3, "padding": 2, "dilation": 2},
    "no padding": {"kernel_size": (3, 2)},
    "1x1": {"kernel_size": 1},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("storage", ["dense", "balanced"])
@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_convolutions(form, storage, dtype):
    model = integers(nn.Sequential(Branch(nn.Conv2d(12, 36, **CONVOLUTIONS[form]))))
    check(model.to(dtype), sample((2, 12, 9, 7), dtype), {"0.layer": storage})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("storage", ["dense", "depthwise_taps"])
@pytest.mark.parametrize("form", ["3x3", "strided", "dilated", "no padding"])
def test_depthwise(form, storage, dtype):
    layer = nn.Conv2d(40, 40, groups=40, **CONVOLUTIONS[form])
    model = integers(nn.Sequential(Branch(layer)))
    check(model.to(dtype), sample((2, 40, 9, 7), dtype), {"0.layer": storage})
