"""Programs that were exported under ``torch.autocast`` have its casts, which no graph names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.emulation.networks import Attention
from tvm_sparse.frontends.program.autocast import recorded, with_casts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
BOUNDS = {torch.bfloat16: 1e-2, torch.float16: 2e-3}


class Classifier(nn.Module):
    """A block of a transformer and a softmax, which CPUs do in the type of their input."""

    def __init__(self):
        super().__init__()
        self.block, self.last = Attention(), nn.Linear(64, 10)

    def forward(self, x):
        return torch.softmax(self.last(self.block(x)), -1)


class Partly(nn.Module):
    """One layer in half precision, with a softmax that is not."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        x = self.first(x)
        with torch.autocast("cpu", torch.bfloat16):
            y = self.second(x)
            with torch.autocast("cpu", enabled=False):
                y = torch.softmax(y.float(), -1) * y
        return y.float() + x


def classified(dtype, size=(2, 9)):
    torch.manual_seed(0)
    model, x = Classifier().eval(), torch.randn(*size, 64)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        return model, x, model(x)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("how", ["file", "context"])
def test_results_are_those_of_eager_under_autocast(dtype, how):
    model, x, wanted = classified(dtype)
    with torch.autocast("cpu", dtype):
        source = torch.export.export(model, (x,)) if how == "file" else model
        inputs = () if how == "file" else ((x,),)
        if how == "context":
            library = ts.compile(source, *inputs, config=CONFIG)
    if how == "file":
        library = ts.compile(source, *inputs, config=CONFIG)
    got = torch.from_dlpack(library(x))
    assert got.dtype == wanted.dtype == dtype
    np.testing.assert_allclose(got.float(), wanted.float(), rtol=0, atol=BOUNDS[dtype])


def test_extents_stay_open():
    model, x, _ = classified(torch.bfloat16)
    dims = ({0: Dim("batch", max=8), 1: Dim("length", max=64)},)
    with torch.autocast("cpu", torch.bfloat16):
        program = torch.export.export(model, (x,), dynamic_shapes=dims)
    library = ts.compile(program, config=CONFIG)
    for size in ((1, 5), (3, 17)):
        _, x, wanted = classified(torch.bfloat16, size)
        got = torch.from_dlpack(library(x))
        np.testing.assert_allclose(got.float(), wanted.float(), rtol=0, atol=1e-2)


def test_autocast_of_a_part_stays_there():
    torch.manual_seed(0)
    model, x = Partly().eval(), torch.randn(20, 32)
    with torch.no_grad():
        wanted = model(x)
    got = torch.from_dlpack(ts.compile(model, (x,), config=CONFIG)(x))
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-3)


def test_programs_without_autocast_stay_as_they_are():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            y = self.layer(x)
            return (y * x).half() + torch.ones(8, dtype=torch.float16)

    program = torch.export.export(Mixed().eval(), (torch.randn(2, 8),))
    assert recorded(program.graph_module.graph) is None
    assert with_casts(program) is program


NORMS = {
    "batch": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)),
    "layer": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.LayerNorm(6)),
    "group": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_halves_with_factors_in_single_precision(name):
    torch.manual_seed(0)
    model, x = NORMS[name]().eval(), torch.randn(2, 3, 8, 8)
    for value in (*model[1].parameters(), *model[1].buffers()):
        if value.is_floating_point():
            nn.init.uniform_(value, 0.5, 2)
    with torch.no_grad(), torch.autocast("cpu", torch.float16):
        wanted = model(x)
        got = torch.from_dlpack(ts.compile(model, (x,), config=CONFIG)(x))
    assert got.dtype == wanted.dtype
    torch.testing.assert_close(got, wanted, rtol=2e-3, atol=4e-3)
