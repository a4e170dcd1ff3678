"""Convolutions by cuDNN: its stand-in and our own kernels both give what PyTorch does."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.cuda import by_library
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import array, integers, sample
from tvm_sparse.selection.cuda import convolution_options
from tvm_sparse.testing import emulate
from tvm_sparse_runtime.libraries import CUDNN

pytestmark = needs_nvrtc

LIBRARY = {"*": CUDNN}
equal_to_eager = partial(by_library.equal_to_eager, chosen=CUDNN)
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 9}
"""cuDNN's numbers of the types."""

LINE = re.compile(r"cudnn [\d ]+ to ([\d ]+) taps ([\d ]+) type (\d) ([a-z ]+) beta (\d) (.*)")


class Network(nn.Module):
    """A first layer of three channels; a residual; a stride; a window that is no square."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 5, stride=2, padding=2)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.third = nn.Conv2d(8, 24, 1, stride=2)
        self.last = nn.Conv2d(24, 16, (3, 2), padding=(2, 1), dilation=(2, 1), bias=False)

    def forward(self, x):
        y = torch.relu(self.first(x))
        y = torch.relu(self.second(y) + y)
        return torch.relu(self.last(self.third(y)))


def calls(log):
    """Return features, what is in the call, residual and state of the calls in a log."""
    found = [line.groups() for line in map(LINE.fullmatch, log.read_text().splitlines()) if line]
    return [
        (int(out.split()[0]), after, beta == "1", state, int(kind))
        for out, _, kind, after, beta, state in found
    ]


@pytest.mark.grid
@pytest.mark.parametrize("dtype", TYPES)
def test_what_the_library_has_goes_into_its_call(dtype, log):
    model = integers(Network().to(dtype))
    launched = equal_to_eager(model, sample((2, 3, 9, 9), dtype))
    # What is left for kernels of ours: the last ReLU, which has no bias before it.
    assert not [name for name in launched if "contract" in name]
    found = {call[:3] for call in calls(log)}
    assert found == {
        (8, "bias relu", False),
        (8, "bias relu", True),
        (24, "bias", False),
        (16, "alone", False),
    }
    assert {state for *_, state, _ in calls(log)} == {"at once", "captured"}
    assert {kind for *_, kind in calls(log)} == {TYPES[dtype]}


@pytest.mark.grid
@pytest.mark.parametrize("dtype", TYPES)
def test_our_own_kernels_run_without_the_library(dtype, log):
    model = integers(Network().to(dtype))
    launched = equal_to_eager(model, sample((2, 3, 9, 9), dtype), libraries=False)
    assert sum("cudnn" in name for name in launched) == 4, launched
    assert not calls(log)


@pytest.mark.grid
@pytest.mark.parametrize("how", ["old", "start", "find", "room", "convolve"])
def test_our_own_kernels_run_where_the_library_fails(how, log, monkeypatch):
    monkeypatch.setenv("FAKE_CUDNN", how)
    equal_to_eager(integers(Network().half()), sample((2, 3, 9, 9), torch.float16))
    assert not calls(log)


class Normed(nn.Module):
    """Two convolutions with batch norms, and a residual, as a residual network has them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8, eps=0) for _ in range(2))
        for norm in self.norms:
            norm.running_mean.copy_(torch.arange(8) % 3)
            norm.running_var.fill_(4)

    def forward(self, x):
        y = torch.relu(self.norms[0](self.layers[0](x)))
        return torch.relu(self.norms[1](self.layers[1](y)) + x)


@pytest.mark.grid
@pytest.mark.parametrize("dtype", TYPES)
def test_batch_norms_are_in_the_call(dtype, log):
    model = integers(Normed().to(dtype))
    launched = equal_to_eager(model, sample((2, 8, 6, 6), dtype))
    assert {call[:3] for call in calls(log)} == {(8, "bias relu", False), (8, "bias relu", True)}
    assert all("transpose" in name for name in launched), launched


LEAST = 3
"""Items from which the library is asked in tests of an open batch."""


@pytest.mark.grid
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("libraries", [True, False])
def test_an_open_batch_is_the_librarys_where_it_is_large(dtype, libraries, log, monkeypatch):
    monkeypatch.setattr(convolution_options, "fewest", lambda *_: LEAST)
    model, x = integers(Network().to(dtype)), sample((4, 3, 9, 9), dtype)
    library = ts.compile(
        model,
        (x,),
        dynamic_shapes=({0: Dim("batch", max=64)},),
        target="cuda:sm_90",
        config=ts.Config(force=LIBRARY),
    )
    for items in (1, LEAST - 1, LEAST, 5):
        log.write_text("")
        part = sample((items, 3, 9, 9), dtype)
        emulation = emulate(library, array(part), libraries=libraries)
        assert not emulation.report.findings, emulation.report.findings
        assert torch.equal(torch.from_numpy(emulation.outputs[0].astype("f4")), model(part).float())
        assert bool(calls(log)) == (libraries and items >= LEAST)


def test_lines_are_planes_of_one_row(log):
    model = nn.Sequential(nn.Conv1d(16, 32, 3, stride=2, padding=1), nn.ReLU()).half()
    equal_to_eager(integers(model), sample((2, 16, 41), torch.float16))
    assert calls(log)[0][:2] == (32, "bias relu")


def test_a_bias_that_is_not_exact_in_the_result_keeps_our_kernel(log):
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(8, 16, 3, bias=False).half()
            self.bias = nn.Parameter(torch.rand(16, 1, 1) + 2**-20)

        def forward(self, x):
            return (self.layer(x).float() + self.bias).half()

    torch.manual_seed(0)
    model, x = Wide(), torch.randn(2, 8, 6, 6).half()
    library = ts.compile(model, (x,), target="cuda:sm_90", config=ts.Config(force=LIBRARY))
    got = emulate(library, x.numpy()).outputs[0]
    with torch.no_grad():
        np.testing.assert_allclose(got, model(x).numpy(), rtol=2e-2, atol=2e-2)


@pytest.mark.grid
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_values_pass_through_relu(value, log):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU()).half()
    x = torch.randn(2, 8, 6, 6).half()
    x[1, 5, 2, 3] = value
    library = ts.compile(model, (x,), target="cuda:sm_90", config=ts.Config(force=LIBRARY))
    with torch.no_grad():
        wanted = model(x).numpy()
    got = emulate(library, x.numpy()).outputs[0]
    assert calls(log)[0][1] == "bias relu"
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(np.isinf(got), np.isinf(wanted))


def test_borders_that_are_not_equal_stay_ours(log):
    model = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(8, 16, 3, stride=2)).half()
    x = sample((8, 8, 8, 8), torch.float16)
    library = ts.compile(integers(model), (x,), target="cuda:sm_90", config=ts.Config())
    with torch.no_grad():
        assert np.array_equal(emulate(library, x.numpy()).outputs[0], model(x).numpy())
    assert not calls(log)
