"""Dense layers by cuBLASLt: its stand-in and our own kernels both give what PyTorch does."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

import tvm_sparse as ts
from tests.cuda.by_library import emulated
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import integers, sample
from tests.emulation.networks import Attention
from tvm_sparse.selection.cuda import library_options
from tvm_sparse.testing import emulate
from tvm_sparse_runtime.libraries import CUBLASLT

pytestmark = needs_nvrtc

LIBRARY = {"*": CUBLASLT}
BOUNDS = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}
TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
"""CUDA's numbers of the types."""

NONE, BIAS = 1, 4
"""Epilogues, as cuBLASLt numbers them."""


class Perceptron(nn.Module):
    """A bias and GELU, a bias and a residual, ReLU without a bias, a bias alone."""

    def __init__(self, *, gelu=True):
        super().__init__()
        self.act = functional.gelu if gelu else torch.relu
        self.first, self.second = nn.Linear(48, 72), nn.Linear(72, 48)
        self.third, self.last = nn.Linear(48, 24, bias=False), nn.Linear(24, 40)

    def forward(self, x):
        y = self.second(self.act(self.first(x))) + x
        return self.last(torch.relu(self.third(y)))


@dataclass(frozen=True)
class Call:
    """A call of the stand-in, as it writes it into its log."""

    size: tuple[int, int, int]
    types: tuple[int, int]
    epilogue: int
    residual: bool
    captured: bool


LINE = re.compile(r"cublaslt (\d+) (\d+) (\d+) types (\d+) (\d+) epilogue (\d+) beta (\d) (.*)")


def calls(log):
    """Return the calls in a log, in order."""
    found = [line.groups() for line in map(LINE.fullmatch, log.read_text().splitlines()) if line]
    return [
        Call(
            *((int(n), int(m), int(k)), (int(a), int(d)), int(epilogue)),
            *(beta == "1", state == "captured"),
        )
        for n, m, k, a, d, epilogue, beta, state in found
    ]


def arrays(*tensors):
    return [
        x.view(torch.int16).numpy().view("bfloat16") if x.dtype == torch.bfloat16 else x.numpy()
        for x in tensors
    ]


def equal_to_eager(model, x, **options):
    """Compile ``model``, all layers by the library, and compare; return what was launched."""
    found, launched = emulated(model, x, CUBLASLT, **options)
    with torch.no_grad():
        wanted = model(x).float().numpy()
    bound = BOUNDS[x.dtype]
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)
    return launched


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS)
def test_what_a_library_has_goes_into_its_call(dtype, log):
    torch.manual_seed(0)
    launched = equal_to_eager(Perceptron().to(dtype), torch.randn(2, 17, 48).to(dtype))
    # What is left for kernels of ours: GELU and ReLU.
    assert len(launched) == 2, launched
    wanted = [
        ((34, 72, 48), BIAS, False),
        ((34, 48, 72), BIAS, True),
        ((34, 24, 48), NONE, False),
        ((34, 40, 24), BIAS, False),
    ]
    found = [((c.size, c.epilogue, c.residual), c.captured) for c in calls(log)]
    first, second, third, last = ((call, False) for call in wanted)
    # What reads inputs or writes outputs runs at each call; the third layer runs once, then into a
    # graph, which the second call runs.
    captured = (wanted[2], True)
    assert found == [first, second, third, captured, last, first, second, last]
    assert {c.types for c in calls(log)} == {(TYPES[dtype],) * 2}


def test_our_own_kernels_run_without_the_library(log):
    torch.manual_seed(0)
    x = torch.randn(2, 17, 48).bfloat16()
    launched = equal_to_eager(Perceptron().bfloat16(), x, libraries=False)
    assert len(launched) == 4, launched  # with all that is behind them
    assert not calls(log)


@pytest.mark.grid
@pytest.mark.parametrize("how", ["old", "start", "find", "multiply"])
def test_our_own_kernels_run_where_the_library_fails(how, log, monkeypatch):
    monkeypatch.setenv("FAKE_CUBLASLT", how)
    torch.manual_seed(0)
    launched = equal_to_eager(Perceptron().half(), torch.randn(2, 17, 48).half())
    assert len(launched) == 4, launched
    assert not calls(log)


@pytest.mark.grid
@pytest.mark.parametrize(("dtype", "libraries"), [(torch.float16, True), (torch.float32, False)])
def test_a_transformer_block(dtype, libraries, log):
    torch.manual_seed(0)
    model, x = Attention().to(dtype), torch.randn(2, 12, 64).to(dtype)
    equal_to_eager(model, x, libraries=libraries)
    assert len({c.size for c in calls(log)}) == (4 if libraries else 0)


LEAST = 32
"""Rows from which the library is asked in tests of open rows."""


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("libraries", [True, False])
def test_open_rows_are_the_librarys_where_they_are_many(dtype, libraries, log, monkeypatch):
    monkeypatch.setattr(library_options, "fewest", lambda *_: LEAST)
    batch, length = Dim("batch", max=64), Dim("length", max=512)
    model, x = integers(Perceptron(gelu=False).to(dtype)), sample((3, 37, 48), dtype)
    library = ts.compile(
        model,
        (x,),
        dynamic_shapes=({0: batch, 1: length},),
        target="cuda:sm_90",
        config=ts.Config(force=LIBRARY),
    )
    few, many = ((1, 1), (3, 11)), ((1, LEAST - 1), (2, LEAST // 2), (1, 67))
    for size in many if libraries else few:
        log.write_text("")
        part = sample((*size, 48), dtype)
        emulation = emulate(library, *arrays(part), libraries=libraries)
        assert not emulation.report.findings, emulation.report.findings
        got = torch.from_numpy(emulation.outputs[0].astype("f4"))
        assert torch.equal(got, model(part).float())
        rows = size[0] * size[1]
        asked = [call.size[0] for call in calls(log)]
        assert set(asked) == ({rows} if libraries and rows >= LEAST else set())


@pytest.mark.grid
@pytest.mark.parametrize("dtype", BOUNDS)
def test_an_open_transformer_block(dtype, log, monkeypatch):
    monkeypatch.setattr(library_options, "fewest", lambda *_: LEAST)
    torch.manual_seed(0)
    model, x = Attention().to(dtype), torch.randn(2, 12, 64).to(dtype)
    dims = ({0: Dim("batch", max=64), 1: Dim("length", max=512)},)
    config = ts.Config(force=LIBRARY)
    library = ts.compile(model, (x,), dynamic_shapes=dims, target="cuda:sm_90", config=config)
    fused = any(kernel.function.startswith("attention") for kernel in library.kernels)
    assert fused == (dtype != torch.float32)
    for size in ((1, 1), (3, 17)):
        log.write_text("")
        x = torch.randn(*size, 64).to(dtype)
        emulation = emulate(library, *arrays(x))
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted, got = model(x).float().numpy(), emulation.outputs[0].astype("f4")
        np.testing.assert_allclose(got, wanted, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])
        assert len({c.size for c in calls(log)}) == (4 if size == (3, 17) else 0)


def test_pointwise_convolutions_are_products_too(log):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(16, 32, 1), nn.ReLU(), nn.Conv2d(32, 24, 1))
    equal_to_eager(model.half(), torch.randn(2, 16, 5, 5).half())
    assert {c.size for c in calls(log)} == {(50, 32, 16), (50, 24, 32)}
    assert {c.epilogue for c in calls(log)} == {BIAS}


def test_features_that_fill_no_tile_have_a_pitch(log):
    torch.manual_seed(0)
    equal_to_eager(nn.Linear(24, 72).half(), torch.randn(40, 24).half())
    assert calls(log)[0].size == (40, 72, 24)


def test_a_bias_that_is_not_exact_in_the_result_stays_behind(log):
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(32, 48, bias=False).half()
            self.bias = nn.Parameter(torch.rand(48) + 2**-20)

        def forward(self, x):
            return (self.layer(x).float() + self.bias).half()

    torch.manual_seed(0)
    equal_to_eager(Wide(), torch.randn(40, 32).half())
    assert {c.epilogue for c in calls(log)} == {NONE}


def test_a_result_that_is_read_twice_is_kept(log):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(32, 48)

        def forward(self, x):
            y = self.layer(x)
            return y * torch.sigmoid(y) + y

    torch.manual_seed(0)
    launched = equal_to_eager(Twice().half(), torch.randn(40, 32).half())
    assert len(launched) == 1
    assert {c.epilogue for c in calls(log)} == {BIAS}


@pytest.mark.grid
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_values_pass_through_relu(value):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU()).half()
    x = torch.randn(40, 32).half()
    x[3, 5] = value
    library = ts.compile(model, (x,), target="cuda:sm_90", config=ts.Config(force=LIBRARY))
    with torch.no_grad():
        wanted = model(x).numpy()
    got = emulate(library, x.numpy()).outputs[0]
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.array_equal(np.isinf(got), np.isinf(wanted))
