"""Networks on an NVIDIA GPU against PyTorch on the CPU. What runs without one is in emulation/."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_sparse as ts
from tests.emulation.networks import BOUNDS, NETWORKS, network
from tvm_sparse_runtime import load

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_equal_pytorch(name, dtype, tmp_path):
    model, x, wanted = network(name)
    x = x.to(dtype)
    library = ts.compile(model.to(dtype), (x,), target="cuda")
    bound = BOUNDS[dtype]
    got = library(x.cuda()).cpu().numpy()
    np.testing.assert_allclose(got.astype("f4"), wanted, rtol=bound, atol=bound)
    again = load(library.export(tmp_path / "a.tvms"))(x.cuda()).cpu().numpy()
    np.testing.assert_array_equal(again, got)
