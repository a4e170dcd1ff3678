"""Extents that are multiples of a symbol: specified, checked, computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F
from tvm import tirx

import tvm_sparse as ts
import tvm_sparse_runtime
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.load import load
from tvm_sparse.frontends.program.multiples import within
from tvm_sparse_runtime.errors import TensorError

QUICK = ts.Config(measure=False)


class Halved(nn.Module):
    """A plane at half its size, and back."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, 2, 1)
        self.point = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        return F.interpolate(self.point(self.down(x).relu()), scale_factor=2.0) + x


class Paired(nn.Module):
    """Two neighbours of a row and the one behind."""

    def forward(self, x, y):
        return x[:, 1:].reshape(x.shape[0], -1, 2).sum(2) * y, x[:, :1]


@pytest.fixture(scope="module")
def halved():
    torch.manual_seed(0)
    model = Halved().eval()
    h, w = Dim("h", min=2, max=20), Dim("w", min=2, max=50)
    shapes = ({0: Dim("n"), 2: 2 * h, 3: 2 * w},)
    library = ts.compile(model, (torch.rand(2, 3, 12, 16),), dynamic_shapes=shapes, config=QUICK)
    return model, library


def test_the_specification_says_multiples(halved):
    _, library = halved
    assert library.inputs[0].shape == ("n", 3, "h * 2", "w * 2")
    assert library.outputs[0].shape == ("n", 3, "h * 2", "w * 2")
    assert library.bounds["h"] == (2, 20)


@pytest.mark.parametrize("shape", [(1, 4, 4), (2, 12, 16), (1, 40, 100), (3, 14, 34)])
def test_multiples_give_what_pytorch_gives(halved, shape):
    model, library = halved
    x = torch.rand(shape[0], 3, *shape[1:])
    torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


REFUSED = [
    ((1, 3, 13, 16), r"13 on axis 2; expected a multiple of 2, x: float32\[n, 3, h \* 2"),
    ((1, 3, 2, 16), "expected h = 2 to 20"),
    ((1, 3, 42, 16), "expected h = 2 to 20"),
    ((1, 3, 12, 102), "expected w = "),
]


@pytest.mark.parametrize(("shape", "told"), REFUSED)
def test_others_are_refused(halved, shape, told):
    with pytest.raises(TensorError, match=told):
        halved[1](torch.rand(shape))


def test_an_artifact_knows_the_multiples(halved, tmp_path):
    model, library = halved
    library.export(tmp_path / "m.tvms")
    loaded = tvm_sparse_runtime.load(tmp_path / "m.tvms")
    x = torch.rand(1, 3, 8, 6)
    found = loaded(x.numpy())
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    for shape, told in REFUSED:
        with pytest.raises(TensorError, match=told):
            loaded(np.zeros(shape, np.float32))


def test_sums_of_a_multiple_and_a_number():
    k = Dim("k", min=2, max=64)
    shapes = ({1: 2 * k + 1}, {1: k})
    library = ts.compile(
        Paired().eval(), (torch.rand(3, 9), torch.rand(3, 4)), dynamic_shapes=shapes, config=QUICK
    )
    for size in (2, 3, 7, 31, 64):
        x, y = torch.rand(3, 2 * size + 1), torch.rand(3, size)
        for found, wanted in zip(library(x, y), Paired()(x, y), strict=True):
            torch.testing.assert_close(found, wanted)
    with pytest.raises(TensorError):
        library(torch.rand(3, 8), torch.rand(3, 4))


class Alone(nn.Module):
    def forward(self, x):
        return x[:, 1:].reshape(x.shape[0], -1, 3).sum(2)


def test_a_number_is_added_to_what_stands_alone_nowhere():
    shapes = ({1: 3 * Dim("k", min=2, max=64) + 1},)
    library = ts.compile(Alone().eval(), (torch.rand(3, 13),), dynamic_shapes=shapes, config=QUICK)
    for size in (2, 3, 31, 64):
        x = torch.rand(3, 3 * size + 1)
        torch.testing.assert_close(library(x), Alone()(x))
    with pytest.raises(TensorError, match="expected a multiple of 3 and 1, x"):
        library(torch.rand(3, 12))


class Flattened(nn.Module):
    """Steps that leave one row of every plane that is allowed, joined with a mean of the plane."""

    def __init__(self, pooled):
        super().__init__()
        self.down = nn.MaxPool2d((16, 1)) if pooled else nn.Conv2d(3, 4, (16, 1), (16, 1))
        self.point = nn.Conv2d(3 if pooled else 4, 4, 1)

    def forward(self, x):
        row = self.point(self.down(x)).relu()
        mean = row.mean((2, 3), keepdim=True)
        return torch.cat([row, mean.expand(-1, -1, -1, row.shape[3])], 1)


@pytest.mark.grid
@pytest.mark.parametrize("pooled", [False, True])
def test_an_extent_that_is_one_between_the_bounds_is_one(pooled):
    torch.manual_seed(0)
    model = Flattened(pooled).eval()
    shapes = ({0: Dim("n"), 2: Dim("h", min=16, max=31), 3: Dim("w", min=2, max=40)},)
    library = ts.compile(model, (torch.rand(2, 3, 20, 12),), dynamic_shapes=shapes, config=QUICK)
    assert library.outputs[0].shape == ("n", 8, 1, "w")
    for shape in ((1, 3, 16, 2), (2, 3, 31, 9)):
        x = torch.rand(shape)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(TensorError):
        library(torch.rand(1, 3, 32, 5))


def test_an_extreme_is_the_part_that_it_always_is():
    n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
    bounds = {"n": (2, 20), "m": (0, None)}
    extent = n // 2 * 10 - 1
    assert within(tirx.Max(extent, tirx.IntImm("int64", 0)), bounds).same_as(extent)
    assert within(tirx.Min(extent + 90, extent), bounds).same_as(extent)
    open_ = tirx.Max(n, m)
    assert within(open_, bounds).same_as(open_)


class Turned(nn.Module):
    """Frames of sound turned by their places, of which there is one table for all."""

    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(1, 8, 5, 3)
        self.angles = nn.Parameter(torch.rand(8))

    def forward(self, x):
        y = self.frames(x[:, None]).transpose(1, 2)
        angles = torch.arange(y.shape[1])[:, None] * self.angles
        table = torch.stack([angles.cos(), angles.sin()])
        return y * table[0, : y.shape[1]] + y.flip(-1) * table[1, : y.shape[1]]


def test_slices_end_within_the_bounds_of_multiples():
    """The slice starts at ``min(0, 2 * n - 1)``, which is 0 as a length is six or more."""
    torch.manual_seed(0)
    model = Turned().eval()
    shapes = ({0: Dim("b", min=1, max=4), 1: 6 * Dim("n", min=1, max=30)},)
    found = load(model, (torch.rand(2, 24),), dynamic_shapes=shapes)
    assert found.ranges == (
        "n is at least 2: for smaller sizes it is another model, or does not run",
    )
    library = ts.compile(found, config=QUICK)
    for batch, length in ((1, 12), (3, 6 * 30)):
        x = torch.rand(batch, length)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)


class Pairs(nn.Module):
    """Means of pairs of rows, of which there is one more where their number is odd."""

    def forward(self, x):
        n = x.shape[1]
        wanted = math.ceil(n / 4) * 2
        if wanted * 2 != n:
            x = F.interpolate(x.transpose(1, 2), wanted * 2).transpose(1, 2)
        return x.unflatten(1, (wanted, 2)).mean(2)


def test_a_condition_on_a_multiple_that_does_not_matter():
    """Rows that are resized to as many are the same."""
    shapes = ({1: 2 * Dim("n", min=2, max=20), 2: 2 * Dim("m", min=2, max=20)},)
    found = load(Pairs(), (torch.rand(2, 6, 8),), dynamic_shapes=shapes)
    assert found.ranges == ()
    library = ts.compile(found, config=QUICK)
    for rows, columns in ((4, 4), (6, 40), (40, 6), (38, 4)):
        x = torch.rand(2, rows, columns)
        torch.testing.assert_close(library(x), Pairs()(x))


class Folded(nn.Module):
    """Blocks of a plane, of which the example has one."""

    def forward(self, x):
        return F.fold(F.unfold(x, 4, stride=4) * 2, x.shape[2:], 4, stride=4)


@pytest.mark.slow
def test_sizes_that_pytorch_leaves_out_of_a_multiple_are_told():
    shapes = ({2: 2 * Dim("h", min=2, max=20), 3: 2 * Dim("w", min=2, max=20)},)
    with pytest.raises(InputError, match=r"open; .*; pass h = Dim\('h', min=2, max=3\)"):
        load(Folded(), (torch.rand(2, 4, 6, 6),), dynamic_shapes=shapes)


ONE_WINDOW = {
    (6, 12): r"h = Dim\('h', min=2, max=3\)",
    (12, 6): r"h = Dim\('h', min=4, max=20\); w = Dim\('w', min=2, max=3\)",
    (8, 12): r"w = Dim\('w', min=4, max=20\)",
}


@pytest.mark.parametrize("size", ONE_WINDOW)
def test_no_program_is_for_sizes_with_one_window_alone(size):
    """Without a word it refused even its example; PyTorch tells on which side of it a size is."""
    shapes = ({2: 2 * Dim("h", min=2, max=20), 3: 2 * Dim("w", min=2, max=20)},)
    with pytest.raises(InputError, match=f"open; .*; pass {ONE_WINDOW[size]}"):
        load(Folded(), (torch.rand(2, 4, *size),), dynamic_shapes=shapes)


def test_windows_of_a_multiple_are_joined():
    shapes = ({2: 2 * Dim("h", min=4, max=20), 3: 2 * Dim("w", min=4, max=20)},)
    example = (torch.rand(2, 4, 8, 12),)
    library = ts.compile(Folded(), example, dynamic_shapes=shapes, config=QUICK)
    for height, width in ((8, 8), (10, 14), (40, 18)):
        x = torch.randint(-3, 4, (2, 4, height, width)).float()
        assert torch.equal(library(x), Folded()(x))


class Placed(nn.Module):
    """Places of a square plane, which are resized for another one."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.rand(1, 2, 4, 4))

    def forward(self, x):
        rows, columns = x.shape[2] // 2, x.shape[3] // 2
        places = self.places
        if rows * columns != 16 or rows != columns:
            places = F.interpolate(places, (rows, columns), mode="bilinear")
        return F.avg_pool2d(x, 2) + places


def test_an_example_of_the_only_size_that_is_not_resized():
    shapes = ({2: 2 * Dim("h", min=2, max=20), 3: 2 * Dim("w", min=2, max=20)},)
    found = load(Placed().eval(), (torch.rand(1, 2, 8, 8),), dynamic_shapes=shapes)
    assert found.ranges == ()
    assert found.inputs[0].shape == (1, 2, "h * 2", "w * 2")
    assert found.bounds == {"h": (2, 20), "w": (2, 20)}
