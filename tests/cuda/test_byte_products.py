"""Products of two quantized activations on GPUs: of bytes where these are modelled faster."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.cuda.kernels import needs_nvrtc, target
from tests.cuda.test_bytes import assert_as_on_cpus, compiled, rounded
from tvm_sparse.base.numerics import FLOAT32, INTEGER_SUMS, Numerics
from tvm_sparse.errors import WidenedBytesWarning
from tvm_sparse.passes.lower import products
from tvm_sparse.selection.cuda.product_choice import bytes_pay
from tvm_sparse.testing import emulate

SIGNS = pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])


class Products(nn.Module):
    """Two products, as attention has them, of bytes whose zeros mean something else, or not."""

    def __init__(self, zeros=(3, 7), dtype=torch.int8, half=False):
        super().__init__()
        self.zeros, self.dtype, self.half_ = zeros, dtype, half

    def meant(self, x, zero):
        """What the bytes next to ``x`` mean."""
        meant = rounded(x.float(), zero, self.dtype)
        return meant.half() if self.half_ else meant

    def forward(self, x):
        """Map ``(..., rows, width)`` to the same."""
        left, right = self.zeros
        scores = self.meant(x, left) @ self.meant(x, right).transpose(-1, -2)
        return (self.meant(scores * 0.125, left) @ self.meant(x, right)).float()


@pytest.fixture
def always(monkeypatch):
    """Bytes are multiplied whatever the model says of so small products."""
    monkeypatch.setattr(products, "bytes_pay", lambda *_: True)


def names(library):
    """Names of the rules of products."""
    return [kernel.rule for kernel in library.kernels if "matmul" in kernel.function]


@needs_nvrtc
@SIGNS
@pytest.mark.grid
@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
@pytest.mark.parametrize("zeros", [(0, 0), (3, 0), (0, 7), (3, 7)])
@pytest.mark.parametrize("shape", [(2, 3, 19, 33), (20, 7), (2, 1, 16)])
def test_bytes_are_multiplied(always, zeros, dtype, shape):
    torch.manual_seed(0)
    model, x = Products(zeros, dtype), torch.randn(shape)
    library = assert_as_on_cpus(model, x)
    assert names(library) == ["TileBytes"] * 2


@needs_nvrtc
@SIGNS
def test_so_they_are_in_half_precision(always, dtype):
    torch.manual_seed(0)
    library = assert_as_on_cpus(Products(dtype=dtype, half=True), torch.randn(2, 19, 32))
    assert names(library) == ["TileBytes"] * 2


@needs_nvrtc
@pytest.mark.filterwarnings("error::tvm_sparse.errors.WidenedBytesWarning")
def test_extents_may_be_open(always):
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=2, max=64)
    model = Products().eval()
    first = Scores().eval()
    library = compiled(first, torch.randn(2, 17, 32), dynamic_shapes={"x": {1: rows}})
    assert names(library) == ["TileBytes"]
    for count in (2, 17, 40):
        x = torch.randn(2, count, 32)
        emulation = emulate(library, x.numpy())
        assert not emulation.report.findings
        expected = compiled(first, x, "cpu")(x)
        np.testing.assert_array_equal(emulation.outputs[0], np.asarray(expected))
    with pytest.warns(WidenedBytesWarning, match="sums are of 16384 bytes at most"):
        library = compiled(model, torch.randn(2, 17, 32), dynamic_shapes={"x": {1: rows}})
    assert names(library) == ["TileBytes", "TileScalar"], "the second adds up open many"


class Scores(Products):
    """The first of the products alone."""

    def forward(self, x):
        """Map ``(..., rows, width)`` to ``(..., rows, rows)``."""
        return self.meant(x, 3) @ self.meant(x, 7).transpose(-1, -2)


class Shared(Products):
    """A product whose right operand all items of a batch share."""

    def forward(self, x):
        """Map ``(batch, rows, width)`` to ``(batch, rows, rows)``."""
        return self.meant(x, 0) @ self.meant(x[:1], 0).transpose(-1, -2)


def test_matrices_that_are_shared_stay_in_floats(always):
    with pytest.warns(WidenedBytesWarning, match="leading extents are equal"):
        assert names(compiled(Shared(), torch.randn(3, 16, 32))) == ["TileScalar"]


def test_small_ones_stay_in_floats_and_it_is_told():
    told = r"2x4x8x32 by 2x4x32x8, .*; those of floats are modelled as fast"
    with pytest.warns(WidenedBytesWarning, match=told):
        assert names(compiled(Products(), torch.randn(2, 4, 8, 32))) == ["TileScalar"] * 2


def test_the_model_weighs_kernels_besides():
    size, items = (128, 128, 64), 12
    both = Numerics("uint8", "uint8", INTEGER_SUMS, FLOAT32.output), FLOAT32
    sums = [items * 128 * 64] * 2
    assert bytes_pay(size, items, both, [], target())
    assert not bytes_pay(size, items, both, sums, target())
    assert bytes_pay((512, 512, 64), items, both, [4 * n for n in sums], target())
