"""Operators that reduce rows, in networks: which rule takes them, executed and equal to PyTorch."""

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import array
from tests.modules import Apply
from tvm_sparse.testing import emulate

SHORT = {
    "average pool": (nn.AvgPool2d(3, 2, 1), (3, 5, 20, 22)),
    "softmax of channels": (nn.Softmax(1), (2, 19, 13, 17)),
    "largest channel": (Apply(lambda x: x.argmax(1)), (2, 19, 13, 57)),
    "least of a line": (Apply(lambda x: x.argmin(-1)), (2, 19, 43, 57)),
    "groups": (nn.Conv2d(24, 32, 3, 1, 1, groups=4), (2, 24, 13, 14)),
    "depthwise, a line": (nn.Conv1d(24, 24, 7, 1, 3, groups=24), (3, 24, 101)),
    "variance": (Apply(lambda x: x.var(1)), (2, 19, 13, 57)),
}
LONG = {
    "group norm": (nn.GroupNorm(4, 24), (2, 24, 9, 11)),
    "instance norm": (nn.InstanceNorm2d(6), (2, 6, 19, 23)),
    "layer norm of two axes": (nn.LayerNorm((19, 23)), (2, 6, 19, 23)),
}
ALLOWED = {torch.float32: 1e-6, torch.float16: 2e-3}


@pytest.mark.grid(12)
@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float16) for name in (*SHORT, *LONG)), ("group norm", torch.float32)],
    ids=str,
)
def test_rows_are_reduced_by_a_thread_or_together(name, dtype):
    model, shape = {**SHORT, **LONG}[name]
    model, x = model.eval().to(dtype), torch.randn(shape).to(dtype)
    library = ts.compile(model, (x,), target="cuda:sm_90")
    rules = {kernel.rule for kernel in library.kernels}
    assert ("Results" if name in SHORT else "Rows") in rules
    assert "Stock" not in rules
    emulation = emulate(library, array(x))
    assert not emulation.report.findings
    with torch.no_grad():
        wanted = model(x).float()
    got = torch.from_numpy(emulation.outputs[0].astype("f4"))
    assert abs(got - wanted).max() <= ALLOWED[dtype] * abs(wanted).max()
