"""2:4 layers by cuSPARSELt: its stand-in and our own kernels both give what PyTorch does."""

from __future__ import annotations

import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.cuda import by_library
from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import array, integers, sample
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.selection.cuda import two_four_options
from tvm_sparse.testing import emulate
from tvm_sparse_runtime.libraries import CUSPARSELT

pytestmark = needs_nvrtc

LIBRARY = {"*": CUSPARSELT}
equal_to_eager = partial(by_library.equal_to_eager, chosen=CUSPARSELT)
TYPES = {torch.float16: 2, torch.bfloat16: 14}
"""CUDA's numbers of the types."""

LINE = re.compile(r"cusparselt (\d+) (\d+) (\d+) type (\d+) ([a-z]+) beta (\d) (.*)")


class Perceptron(nn.Module):
    """A bias and ReLU, a bias and a residual, ReLU without a bias, a bias alone."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(48, 80), nn.Linear(80, 48)
        self.third, self.last = nn.Linear(48, 32, bias=False), nn.Linear(32, 16)

    def forward(self, x):
        y = self.second(torch.relu(self.first(x))) + x
        return self.last(torch.relu(self.third(y)))


def pruned(model):
    """Return ``model`` with small integers, two of four weights zero."""
    integers(model)
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            weight = layer.weight.data.flatten(1)
            scores = torch.rand(weight.shape, generator=torch.Generator().manual_seed(1)).numpy()
            kept = torch.from_numpy(Balanced(4, 2).project(scores))
            layer.weight.data.copy_((weight * kept).reshape(layer.weight.shape))
    return model


def calls(log):
    """Return rows, features, columns, type, bias, residual and state of the calls in a log."""
    found = [line.groups() for line in map(LINE.fullmatch, log.read_text().splitlines()) if line]
    return [
        ((int(n), int(m), int(k)), int(kind), how == "bias", beta == "1", state)
        for n, m, k, kind, how, beta, state in found
    ]


@pytest.mark.grid
@pytest.mark.parametrize("rows", [17, 24])
@pytest.mark.parametrize("dtype", TYPES)
def test_what_the_library_has_goes_into_its_call(dtype, rows, log):
    model = pruned(Perceptron().to(dtype))
    launched = equal_to_eager(model, sample((2, rows, 48), dtype))
    # What is left for kernels of ours: two ReLUs, without which nothing is launched.
    assert len(launched) == 2, launched
    whole = 2 * rows - 2 * rows % 8
    wanted = [((80, 48), True, False), ((48, 80), True, True), ((32, 48), False, False)]
    wanted.append(((16, 32), True, False))
    found = {(size[1:], *rest) for size, _, *rest, _ in calls(log)}
    assert found == set(wanted)
    # Odd rows are a second product, of the last eight.
    assert {size[0] for size, *_ in calls(log)} == ({whole} if 2 * rows == whole else {whole, 8})
    assert {kind for _, kind, *_ in calls(log)} == {TYPES[dtype]}
    assert {state for *_, state in calls(log)} == {"at once", "captured"}


@pytest.mark.grid
@pytest.mark.parametrize("dtype", TYPES)
def test_our_own_kernels_run_without_the_library(dtype, log):
    model = pruned(Perceptron().to(dtype))
    launched = equal_to_eager(model, sample((2, 17, 48), dtype), libraries=False)
    assert len(launched) == 4, launched
    assert not calls(log)


@pytest.mark.grid
@pytest.mark.parametrize("how", ["old", "start", "memory", "compress", "plan", "room", "multiply"])
def test_our_own_kernels_run_where_the_library_fails(how, log, monkeypatch):
    monkeypatch.setenv("FAKE_CUSPARSELT", how)
    model = pruned(Perceptron().half())
    launched = equal_to_eager(model, sample((2, 17, 48), torch.float16))
    assert len(launched) == 4, launched
    assert not calls(log)


LEAST = 32
"""Rows from which the library is asked in tests of open rows."""


@pytest.mark.grid
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("libraries", [True, False])
def test_open_rows_are_the_librarys_where_they_are_many(dtype, libraries, log, monkeypatch):
    monkeypatch.setattr(two_four_options, "fewest", lambda *_: LEAST)
    dims = ({0: Dim("batch", max=64), 1: Dim("length", max=512)},)
    model, x = pruned(Perceptron().to(dtype)), sample((3, 37, 48), dtype)
    config = ts.Config(force=LIBRARY)
    library = ts.compile(model, (x,), dynamic_shapes=dims, target="cuda:sm_90", config=config)
    for size in ((1, LEAST - 1), (2, LEAST // 2), (1, 67)) if libraries else ((1, 1), (3, 11)):
        log.write_text("")
        part = sample((*size, 48), dtype)
        emulation = emulate(library, array(part), libraries=libraries)
        assert not emulation.report.findings, emulation.report.findings
        with torch.no_grad():
            wanted = model(part).float()
        assert torch.equal(torch.from_numpy(emulation.outputs[0].astype("f4")), wanted)
        rows = size[0] * size[1]
        asked = {call[0][0] for call in calls(log)}
        several = {rows - rows % 8} | ({8} if rows % 8 else set())
        assert asked == (several if libraries and rows >= LEAST else set())


def test_pointwise_convolutions_are_products_too(log):
    model = pruned(nn.Sequential(nn.Conv2d(16, 32, 1), nn.ReLU(), nn.Conv2d(32, 16, 1)).half())
    equal_to_eager(model, sample((2, 16, 5, 5), torch.float16))
    assert {size for size, *_ in calls(log)} == {
        *((48, 32, 16), (8, 32, 16)),
        *((48, 16, 32), (8, 16, 32)),
    }


def test_weights_are_compressed_once(log):
    equal_to_eager(pruned(Perceptron().half()), sample((2, 16, 48), torch.float16))
    lines = [line for line in log.read_text().splitlines() if line.endswith("compression")]
    assert len(lines) == 4, lines
