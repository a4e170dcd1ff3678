"""Networks of which a library that stands in computes all layers."""

from __future__ import annotations

import numpy as np
import torch

import tvm_sparse as ts
from tests.emulation.exact import array
from tvm_sparse.testing import emulate


def emulated(model, x, chosen, **options):
    """Run ``model`` with all layers by the library ``chosen``; return its result and kernels."""
    config = ts.Config(force={"*": chosen})
    library = ts.compile(model, (x,), target="cuda:sm_90", config=config)
    assert {d.chosen for d in library.decisions} == {chosen}
    emulation = emulate(library, array(x), **options)
    assert not emulation.report.findings, emulation.report.findings
    kernels = [launch.kernel for launch in emulation.report.launches]
    return emulation.outputs[0].astype(np.float32), kernels


def equal_to_eager(model, x, chosen, **options):
    """Run ``model`` of integers so, compare it with PyTorch, and return what was launched."""
    found, launched = emulated(model, x, chosen, **options)
    with torch.no_grad():
        assert torch.equal(torch.from_numpy(found), model(x).float())
    return launched
