"""Small arguments keep their digits: PyTorch in float64 is the reference, relative errors count."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tvm_sparse as ts
from tests.edges import wrong
from tests.modules import Apply
from tests.parts import parts

USES = {
    name: getattr(torch, name) for name in ("log1p", "expm1", "tanh", "erf", "sigmoid", "exp")
} | {
    name: getattr(F, name)
    for name in ("elu", "celu", "selu", "softplus", "logsigmoid", "mish", "silu")
}
USES |= {
    "elu alpha": lambda x: F.elu(x, 0.7),
    "celu alpha": lambda x: F.celu(x, 2.0),
    "softplus beta": lambda x: F.softplus(x, 3.0, 10.0),
}


PARTS = parts({"uses": {name: use for name, use in USES.items() if name != "log1p"}}, 3)


@pytest.mark.grid
@pytest.mark.parametrize("part", PARTS)
def test_relative_precision_from_tiny_to_large_arguments(part):
    size = torch.logspace(-30, 1, 311)
    x = torch.cat([size, -size, torch.linspace(-12, 12, 385)])
    assert wrong(PARTS[part], x, rtol=3e-6, atol=0, exact=True) == {}


def test_relative_precision_of_log1p():
    size = torch.logspace(-30, 4, 341)
    x = torch.cat([size, -size[size < 1], torch.tensor([-1.0, -2.0, float("inf")])])
    assert wrong({"log1p": torch.log1p}, x, rtol=1e-6, atol=0, exact=True) == {}


def test_angles_of_real_numbers():
    x = torch.tensor([-2.0, -0.0, 0.0, 3.0, float("nan"), -float("inf")])
    assert wrong({"angle": torch.angle}, x, rtol=1e-6, atol=0) == {}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_mish_of_other_types(dtype):
    x = torch.cat([torch.linspace(-30, 30, 121), torch.tensor([float("inf"), float("nan")])])
    library = ts.compile(Apply(F.mish), (x.to(dtype),), config=ts.Config(measure=False))
    wanted = F.mish(x.to(dtype))
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(library(x.to(dtype)), wanted, rtol=4 * eps, atol=eps, equal_nan=True)
