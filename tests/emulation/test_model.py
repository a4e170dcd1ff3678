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


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_equal_pytorch(name, dtype):
    model, x, wanted = network(name)
    library = ts.compile(model.to(dtype), (x.to(dtype),), target="cuda:sm_90a")
    emulation = emulate(library, x.to(dtype).numpy())
    assert not emulation.report.findings, emulation.report.findings
    assert emulation.report.launches
    (got,) = emulation.outputs
    bound = BOUNDS[dtype]
    np.testing.assert_allclose(got.astype("f4"), wanted, rtol=bound, atol=bound)


def assert_open(name, dtype, dims, parts):
    model, x, _ = network(name)
    model, x = model.to(dtype), torch.cat([x, x, x])[:3].to(dtype)
    library = ts.compile(model, (x,), dynamic_shapes=(dims,), target="cuda:sm_90", config=FAST)
    for part in parts:
        y = x[part].contiguous()
        emulation = emulate(library, y.numpy())
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted = model(y).float().numpy()
        bound = BOUNDS[dtype]
        np.testing.assert_allclose(
            emulation.outputs[0].astype("f4"), wanted, rtol=bound, atol=bound
        )


BATCH, LENGTH = torch.export.Dim("batch", min=1, max=16), torch.export.Dim("length", min=1, max=64)


def test_a_network_of_halves_with_an_open_batch():
    assert_open("stack", torch.float16, {0: BATCH}, [slice(1), slice(3)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_an_open_batch(name, dtype):
    assert_open(name, dtype, {0: BATCH}, [slice(1), slice(3)])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", BOUNDS)
def test_attention_with_open_batch_and_length(dtype):
    parts = [(slice(1), slice(1)), (slice(2), slice(5)), (slice(3), slice(9))]
    assert_open("attention", dtype, {0: BATCH, 1: LENGTH}, parts)


@pytest.mark.grid
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_89", "cuda:sm_80,sm_90", "cuda:sm_120"])
def test_every_architecture_is_executed(target):
    model, x = nn.Sequential(nn.Linear(16, 8), nn.ReLU()).eval(), torch.randn(2, 16)
    emulation = emulate(ts.compile(model, (x,), target=target, config=FAST), x.numpy())
    assert not emulation.report.findings
    np.testing.assert_allclose(emulation.outputs[0], model(x).detach(), rtol=1e-5, atol=1e-5)


def test_other_targets_are_refused():
    library = ts.compile(nn.Linear(8, 8).eval(), (torch.zeros(1, 8),), target="cpu")
    with pytest.raises(InputError, match="target 'cuda'"):
        emulate(library, np.zeros((1, 8), "f4"))
