"""Windows with places, and norms, over open axes; what is written into a slice has to fill it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.cuda.kernels import needs_nvrtc
from tests.modules import Apply
from tvm_sparse.testing import emulate
from tvm_sparse_runtime import TensorError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
PLANES = (2, 3, 8, 12)
POOLS = {
    "pairs": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "lines": lambda x: F.max_pool1d(x[:, :, 0], 3, 2, 1, return_indices=True),
    "borders": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "rounded up": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True),
    "borders rounded up": lambda x: F.max_pool2d(x, 3, 2, 1, 1, True, return_indices=True),
    "lines rounded up": lambda x: F.max_pool1d(x[:, 0], 4, 3, 1, 1, True, return_indices=True),
    "pairs rounded up": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
    "volumes rounded up": lambda x: F.max_pool3d(x, 2, ceil_mode=True, return_indices=True),
    "far apart": lambda x: F.max_pool2d(x, (3, 2), 1, 1, 2, return_indices=True),
    "unpooled": lambda x: F.max_unpool2d(
        *F.max_pool2d(x, 2, return_indices=True), 2, output_size=x.shape[-2:]
    ),
    "volumes": lambda x: F.max_pool3d(x, 2, return_indices=True),
    "shares": lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True),
    "shares of lines": lambda x: F.adaptive_max_pool1d(x[:, :, 0], 4),
    "shares alone": lambda x: F.adaptive_max_pool2d(x, (3, 3)),
}


def planes(width, seed=0):
    """Return small integers, so that there are equal ones, and some that are no number."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-3, 4, (*PLANES[:3], width), generator=generator).float()
    return torch.where(torch.rand(x.shape, generator=generator) < 0.02, torch.nan, x)


def compiled(function, x, axis, low, **options):
    shapes = ({axis: Dim("n", min=low, max=60)},)
    model = Apply(function)
    return ts.compile(model, (x,), dynamic_shapes=shapes, config=CONFIG, **options)


def same(found, wanted):
    found, wanted = (y if isinstance(y, tuple | list) else (y,) for y in (found, wanted))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.grid(4)
@pytest.mark.parametrize("name", POOLS)
def test_places_of_maxima(name):
    library = compiled(POOLS[name], planes(12), 3, 4)
    for width in (4, 5, 12, 13, 31, 60):
        x = planes(width, width)
        same(library(x), POOLS[name](x))


@needs_nvrtc
def test_places_of_maxima_on_gpus():
    library = compiled(POOLS["borders"], planes(12), 3, 4, target="cuda:sm_90")
    for width in (4, 13):
        x = planes(width, width)
        emulation = emulate(library, x.numpy())
        assert not emulation.report.findings
        same([torch.from_numpy(y) for y in emulation.outputs], POOLS["borders"](x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("axes", [1, 2])
def test_norms_of_open_axes(axes, dtype):
    def function(x):
        scale, offset = x[0] * 0 + 2, x[1] * 0 + 1
        scale, offset = (scale, offset) if axes == 2 else (scale[0], offset[0])
        return F.layer_norm(x, x.shape[-axes:], scale, offset)

    library = compiled(function, torch.randn(3, 4, 12, dtype=dtype), 2, 1)
    tolerance = 2e-3 if dtype == torch.float16 else 1e-5
    for width in (1, 2, 12, 33, 60):
        x = torch.randn(3, 4, width, dtype=dtype) + 3
        wanted = function(x)
        torch.testing.assert_close(library(x), wanted, rtol=tolerance, atol=tolerance)


def test_bags_of_an_open_number_of_rows():
    table = torch.arange(20.0).reshape(5, 4)

    def function(x):
        return F.embedding_bag(x.abs().long() % 5, table)

    library = compiled(function, torch.randn(3, 12), 1, 2)
    for size in (2, 3, 12, 33):
        x = 9 * torch.randn(3, size)
        torch.testing.assert_close(library(x), function(x))


SCATTERS = {
    "from the begin": (lambda x, s: torch.slice_scatter(x, s, 1, 0, 4), 6, range(4, 60), 4),
    "last ones": (lambda x, s: torch.slice_scatter(x, s, 1, -4), 6, range(4, 60), 4),
    "to the end": (lambda x, s: torch.slice_scatter(x, s, 1, 2), 6, [6], 4),
    "every other": (lambda x, s: torch.slice_scatter(x, s, 1, 1, None, 2), 6, [6, 7], 3),
    "place": (lambda x, s: torch.select_scatter(x, s[:, 0], 1, 3), 6, range(4, 60), 4),
    "place from the end": (
        lambda x, s: torch.select_scatter(x, s[:, 0], 1, -2),
        6,
        [*range(2, 60)],
        4,
    ),
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", SCATTERS)
def test_what_is_written_fills_its_slice(name):
    function, example, fitting, columns = SCATTERS[name]
    source = torch.arange(2.0 * columns).reshape(2, columns)
    library = compiled(lambda x: function(x, source), torch.randn(2, example), 1, 1)
    for size in (1, 2, 3, 4, 5, 6, 7, 8, 31):
        x = torch.randn(2, size)
        if size in fitting:
            same(library(x), function(x, source))
        else:
            with pytest.raises((RuntimeError, IndexError)):
                function(x, source)
            with pytest.raises((TensorError, ts.SparseError), match=r"expected|traced where"):
                library(x)


SHARES = {
    "planes": lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, x.shape[3] // 4)),
    "one axis": lambda x: F.adaptive_max_pool2d(x, (None, x.shape[3] // 2)),
    "lines": lambda x: F.adaptive_max_pool1d(x[:, 0], x.shape[3] // 8),
    "volumes": lambda x: F.adaptive_max_pool3d(x, (3, x.shape[2] // 4, None)),
    "means": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3])),
    "means of lines": lambda x: F.adaptive_avg_pool1d(x[:, 0], x.shape[3] // 4),
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", SHARES)
def test_equal_shares_of_open_planes(name):
    model, multiples = Apply(SHARES[name]), {2: 4 * Dim("h", max=9), 3: 8 * Dim("w", max=9)}
    example = (torch.rand(2, 3, 12, 16),)
    library = ts.compile(model, example, dynamic_shapes=(multiples,), config=CONFIG)
    for height, width in ((2, 2), (9, 2), (3, 9), (4, 5)):
        x = torch.randint(-9, 9, (2, 3, 4 * height, 8 * width)).float()
        torch.testing.assert_close(library(x), model(x), rtol=0, atol=0)


def test_shares_of_any_plane_are_refused_with_the_multiples_that_have_equal_ones():
    example, shapes = (torch.rand(2, 3, 12, 16),), ({2: Dim("h", min=4, max=60)},)
    model = Apply(lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, 4)))
    with pytest.raises(ts.InputError, match=r"h == \(2\*\(h // 2\)\).*h = 2\*_h"):
        ts.compile(model, example, dynamic_shapes=shapes, config=CONFIG)


def places_of_shares(x):
    return F.adaptive_max_pool2d(x, (x.shape[2] // 2, 4), return_indices=True)


def test_numbers_that_operators_make_of_multiples_are_refused():
    example, shapes = (torch.rand(2, 3, 12, 16),), ({2: 2 * Dim("h", min=2, max=30)},)
    model = Apply(places_of_shares)
    with pytest.raises(ts.InputError, match=r"axis 2 of 'x' open \(a number is made.*line \d"):
        ts.compile(model, example, dynamic_shapes=shapes, config=CONFIG)
    program = torch.export.export(model, example, dynamic_shapes=shapes)
    library = ts.compile(program, config=CONFIG)
    same(library(*example), model(*example))
    with pytest.raises(TensorError, match="shape"):
        library(torch.rand(2, 3, 14, 16))


@pytest.mark.parametrize("channels", [8, 24])
def test_windows_side_by_side_of_open_planes(channels):
    model = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.MaxPool2d(2)).eval()
    h, w = Dim("h", min=4), Dim("w", min=4)
    example = torch.randn(2, 3, 16, 12)
    library = ts.compile(model, (example,), dynamic_shapes=({2: h, 3: w},))
    for shape in [(2, 3, 4, 5), (2, 3, 17, 31), (2, 3, 40, 22)]:
        x = torch.randn(shape)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)


APART = {
    "taken apart": lambda x: F.unfold(x, (2, 3), stride=(2, 3)),
    "joined": lambda x: F.fold(F.unfold(x, 2, stride=2) * 2, x.shape[2:], 2, stride=2),
    "flat": lambda x: F.fold(F.unfold(x, (3, 2), stride=(3, 2)), x.shape[2:], (3, 2), 1, 0, (3, 2)),
    "overlapping": lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
}


@pytest.mark.parametrize("name", APART)
def test_windows_are_taken_apart_and_joined(name):
    """What is behind the last whole window is in none, and zero where windows are joined."""
    model, shapes = Apply(APART[name]), ({2: Dim("h"), 3: Dim("w")},)
    library = ts.compile(model, (planes(12),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in [(3, 3), (8, 12), (9, 13), (6, 7), (31, 40)]:
        x = torch.randint(-3, 4, (2, 3, height, width)).float()
        same(library(x), model(x))


def test_windows_begin_where_one_fits():
    """A plane that is halved before: the least one is none of the smallest."""
    model = Apply(lambda x: F.unfold(F.avg_pool2d(x, 4), 2, stride=2))
    shapes = ({2: Dim("h"), 3: Dim("w")},)
    library = ts.compile(model, (torch.rand(1, 3, 32, 24),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in [(8, 8), (9, 15), (16, 8), (35, 50)]:
        x = torch.rand(1, 3, height, width)
        torch.testing.assert_close(library(x), model(x))
    with pytest.raises(TensorError, match="h = at least 8"):
        library(torch.rand(1, 3, 7, 8))
