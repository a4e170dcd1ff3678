"""A dense matrix that cuBLASLt shares, by ``wgmma``: what runs on Hopper without that library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm

import tvm_sparse as ts
from tests.cuda.hopper import (
    ARCH,
    Net,
)
from tests.cuda.kernels import needs_nvrtc, target
from tests.emulation.exact import array
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cuda import library_options, wgmma_option
from tvm_sparse.testing import emulate


@needs_nvrtc
@pytest.mark.parametrize("libraries", [False, True])
def test_a_network_equals_pytorch_with_the_library_and_without(libraries, monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, "matrix", 0.01)  # small layers go elsewhere
    torch.manual_seed(0)
    model, x = Net(128, 72).bfloat16().eval(), torch.randn(33, 128).bfloat16()
    config = ts.Config(force={"*": "cublaslt"})
    library = ts.compile(model, (x,), target=f"cuda:{ARCH}", config=config)
    assert {decision.chosen for decision in library.decisions} == {"cublaslt"}
    assert {kernel.rule for kernel in library.kernels if kernel.layer} == {"TileWgmma"}
    emulation = emulate(library, array(x), libraries=libraries)
    assert not emulation.report.findings, emulation.report.findings
    launched = [launch.kernel for launch in emulation.report.launches]
    assert len(launched) == (2 if libraries else 3), launched
    with torch.no_grad():
        wanted = model.float()(x.float())
    np.testing.assert_allclose(emulation.outputs[0].astype("f4"), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("lead", "arch", "dtype", "by_wgmma"),
    [
        ((1024,), "sm_90a", "float16", True),
        ((1024,), "sm_90", "float16", False),
        ((1024,), "sm_90a", "float32", False),
        (("n",), "sm_90a", "float16", False),
    ],
)
def test_hopper_alone_has_it_as_second_branch(lead, arch, dtype, by_wgmma):
    lead = tuple(tvm.tirx.Var(n, "int64") if isinstance(n, str) else n for n in lead)
    c = Contraction(lead, 2048, 2048, numerics=Numerics.uniform(dtype))
    option = library_options.product(c, target(arch))
    assert ("tile_wgmma" in option.build().script()) is by_wgmma
    assert option.kernel == "cublaslt"
