"""All functions of a program with open extents keep sums in registers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts


@pytest.mark.optimised
def test_kernels_of_open_programs_do_not_share_memory():
    model, x = nn.Conv2d(16, 32, 3, padding=1), torch.rand(2, 16, 9, 9)
    dims = ({0: torch.export.Dim("batch", max=8)},)
    config = ts.Config(measure=False, cache=False, tuned=False)
    library = ts.compile(model.eval(), (x,), dynamic_shapes=dims, config=config)
    code = library.executable.mod.imports[0].inspect_source("ll")
    kernels = [line for line in code.splitlines() if line.startswith("define internal fastcc")]
    convolutions = [line for line in kernels if "conv2d" in line]
    assert convolutions
    assert all("noalias" in line for line in convolutions)
    torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
