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


def test_other_targets_are_refused():
    library = ts.compile(nn.Linear(8, 8).eval(), (torch.zeros(1, 8),), target="cpu")
    with pytest.raises(InputError, match="target 'cuda'"):
        emulate(library, np.zeros((1, 8), "f4"))
