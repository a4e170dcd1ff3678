"""Reductions over an open extent that has no element, on GPUs: executed and equal to PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import array
from tests.modules import Apply
from tvm_sparse.testing import emulate

REDUCTIONS = {
    "sum": lambda x: torch.relu(x[:, 1:].sum(-1)) + 1,
    "sum of rows": lambda x: x.mT[1:].sum(0),
    "all": lambda x: x[:, 1:].sum(),
    "mean": lambda x: x[:, 1:].mean(-1),
    "product": lambda x: x[:, 1:].prod(-1),
    "any": lambda x: (x[:, 1:] > 2).any(-1),
    "all true": lambda x: (x[:, 1:] > 0).all(-1),
    "softmax": lambda x: x[:, 1:].softmax(-1).sum(-1),
    "products": lambda x: x[:, 1:] @ x[:, :-1].mT,
    "matrix and vector": lambda x: x[:, 1:] @ x[0, 1:],
}
CASES = [
    *((name, 3, torch.float32) for name in REDUCTIONS),
    ("sum", 300, torch.float32),
    ("products", 64, torch.float16),
]


@pytest.mark.grid(6)
@needs_nvrtc
@pytest.mark.parametrize(("name", "rows", "dtype"), CASES, ids=str)
def test_nothing_is_reduced(name, rows, dtype):
    function = REDUCTIONS[name]
    shapes = ({1: Dim("n", min=1, max=100)},)
    model, example = Apply(function), torch.ones(rows, 5, dtype=dtype)
    library = ts.compile(model, (example,), dynamic_shapes=shapes, target="cuda:sm_90")
    for size in (1, 2, 33):
        x = torch.arange(rows * size).reshape(rows, size).remainder(3).to(dtype) + 1
        emulation = emulate(library, array(x))
        assert not emulation.report.findings
        got = torch.from_numpy(emulation.outputs[0])
        assert got.dtype == function(x).dtype
        torch.testing.assert_close(got, function(x), equal_nan=True)
