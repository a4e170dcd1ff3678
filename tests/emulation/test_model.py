"""Whole networks, their very PTX executed on a CPU, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.networks import BOUNDS, NETWORKS, network
from tvm_sparse.errors import InputError
from tvm_sparse.testing import emulate

pytestmark = needs_nvrtc

FAST = ts.Config(measure=False)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_equal_pytorch(name, dtype):
    model, x, wanted = network(name)
    library = ts.compile(model.to(dtype), (x.to(dtype),), target="cuda:sm_90")
    emulation = emulate(library, x.to(dtype).numpy())
    assert not emulation.report.findings, emulation.report.findings
    assert emulation.report.launches
    (got,) = emulation.outputs
    bound = BOUNDS[dtype]
    np.testing.assert_allclose(got.astype("f4"), wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_80,sm_90"])
def test_every_architecture_is_executed(target):
    model, x = nn.Sequential(nn.Linear(16, 8), nn.ReLU()).eval(), torch.randn(2, 16)
    emulation = emulate(ts.compile(model, (x,), target=target, config=FAST), x.numpy())
    assert not emulation.report.findings
    np.testing.assert_allclose(emulation.outputs[0], model(x).detach(), rtol=1e-5, atol=1e-5)


def test_other_targets_are_refused():
    library = ts.compile(nn.Linear(8, 8).eval(), (torch.zeros(1, 8),), target="cpu")
    with pytest.raises(InputError, match="target 'cuda'"):
        emulate(library, np.zeros((1, 8), "f4"))
