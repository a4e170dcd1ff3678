"""Networks under ``torch.autocast`` for GPUs: 16-bit weights on tensor cores, as eager computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.cuda.use import CONFIG
from tests.emulation.networks import network
from tvm_sparse.testing import emulate

BOUNDS = {torch.bfloat16: 4e-2, torch.float16: 5e-3}


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", ["attention", "mobile", "gated"])
def test_products_take_tensor_cores_and_results_are_eagers(name, dtype):
    model, x, _ = network(name)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        wanted = model(x).float().numpy()
        program = torch.export.export(model, (x,))
    library = ts.compile(program, target="cuda:sm_90", config=CONFIG)
    rules = {kernel.rule for kernel in library.kernels}
    assert "TileTensorCore" in rules and "TileScalar" not in rules
    found = emulate(library, x.numpy())
    assert not found.report.findings, found.report.findings
    got = found.outputs[0].astype("f4")
    np.testing.assert_allclose(got, wanted, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])
