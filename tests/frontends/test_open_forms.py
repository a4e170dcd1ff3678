"""Functions that make numbers of open extents leave them open."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
LENGTHS = (1, 2, 7, 16, 31, 61)


class Layers(nn.Module):
    def __init__(self, kind, **options) -> None:
        super().__init__()
        self.layers = kind(5, 8, batch_first=True, **options)

    def forward(self, x):
        rows, states = self.layers(x)
        last = states[0] if isinstance(states, tuple) else states
        return rows, last[-1] + rows[:, -1, :8]


@pytest.mark.grid
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers_of_open_length(kind):
    torch.manual_seed(0)
    model = Layers(kind, num_layers=2, bidirectional=kind is nn.GRU).eval().requires_grad_(False)
    shapes = ({1: Dim("n", min=1, max=61)},)
    library = ts.compile(model, (torch.rand(2, 9, 5),), dynamic_shapes=shapes, config=CONFIG)
    for length in LENGTHS:
        x = torch.rand(2, length, 5)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)


class Forms(nn.Module):
    def forward(self, x):
        n = x.shape[2]
        return (
            torch.linspace(-1, 2, n) + x[0, 0, 0, 0],
            F.one_hot(x.argmax(2), n),
            F.avg_pool2d(x, x.shape[2:]),
            F.max_pool2d(x, (n, x.shape[3])),
            F.max_pool2d(x, (n, 1)),
        )


def test_forms_are_right_at_every_size():
    shapes = ({2: Dim("h", min=2, max=61), 3: Dim("w", min=2, max=61)},)
    library = ts.compile(Forms(), (torch.rand(1, 2, 9, 8),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in zip((2, 3, 7, 16, 31, 61), (61, 2, 13, 16, 5, 3), strict=True):
        x = torch.rand(1, 2, height, width)
        torch.testing.assert_close(library(x), Forms()(x))


def made_of_extents(x):
    rows, n = x.shape[:2]
    order = x[..., 0].flatten().argsort()
    return (
        torch.linspace(2, 5, n) + x[0, 0, 0],
        x[:1, :1].repeat(rows, n, 2),
        x.tile(n, 1, 1),
        x.roll(1, 1),
        torch.empty_like(order).index_put((order,), torch.arange(rows * n)),
        x.new_empty(n, rows).fill_(3) * x[0, 0, 0],
        torch.empty_permuted((n, rows), (1, 0), dtype=torch.int32).fill_(3),
    )


def test_what_is_made_of_extents_is_right_for_one():
    model, shapes = Apply(made_of_extents), ({0: Dim("b"), 1: Dim("n")},)
    library = ts.compile(model, (torch.rand(2, 3, 4),), dynamic_shapes=shapes, config=CONFIG)
    for extents in ((1, 1), (2, 3), (3, 1), (1, 2), (5, 17)):
        x = torch.rand(*extents, 4)
        for got, wanted in zip(library(x), model(x), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")  # of axes of one element
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_grids_of_open_planes(dims, align_corners):
    model = Apply(lambda x: F.affine_grid(x[0], x[1].shape, align_corners=align_corners))
    named = [Dim(name, min=1, max=20) for name in "bhw"]
    planes = {2: named[1], 3: named[2]}
    shapes = {"x": ({0: named[0]}, {0: named[0], **planes})}
    last = (4,) * (dims - 2)
    given = torch.randn(2, dims, dims + 1), torch.zeros(2, 1, 9, 8, *last)
    library = ts.compile(model, (given,), dynamic_shapes=shapes, config=CONFIG)
    for batch, height, width in ((2, 9, 8), (1, 1, 1), (3, 2, 1), (5, 17, 20)):
        x = torch.randn(batch, dims, dims + 1), torch.zeros(batch, 1, height, width, *last)
        torch.testing.assert_close(library(x), model(x))


class Smoothed(nn.Module):
    """Planes, and a table of them, resized to open sizes without steps between the elements."""

    def __init__(self, mode) -> None:
        super().__init__()
        self.mode, self.table = mode, nn.Parameter(torch.randn(1, 3, 7, 9), False)

    def forward(self, x):
        size = (x.shape[2] + 1) // 2, x.shape[3] * 2 - 1
        return [F.interpolate(y, size, mode=self.mode, antialias=True) for y in (x, self.table)]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_planes_are_smoothed_to_open_sizes(mode):
    torch.manual_seed(0)
    model = Smoothed(mode)
    shapes = ({2: Dim("h", min=1, max=64), 3: Dim("w", min=1, max=64)},)
    library = ts.compile(model, (torch.randn(2, 3, 8, 9),), dynamic_shapes=shapes, config=CONFIG)
    for size in ((1, 1), (2, 2), (8, 9), (17, 64), (64, 3)):
        x = torch.randn(2, 3, *size)
        for found, wanted in zip(library(x), model(x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=3e-5)


class Hourglass(nn.Module):
    """Planes that are halved, and made as large as they were by a transposed convolution."""

    def __init__(self, kind, up, **options) -> None:
        super().__init__()
        self.down, self.up = kind(4, 16, 3, 2, 1), up(16, 4, 3, **options)

    def forward(self, x):
        return self.up(self.down(x).relu(), output_size=x.shape[2:]) + x


UPS = {
    "lines": (nn.Conv1d, nn.ConvTranspose1d, {"stride": 2, "padding": 1}),
    "planes": (nn.Conv2d, nn.ConvTranspose2d, {"stride": 2, "padding": 1}),
    "groups": (nn.Conv2d, nn.ConvTranspose2d, {"stride": 2, "padding": (1, 1), "groups": 4}),
    "volumes": (nn.Conv3d, nn.ConvTranspose3d, {"stride": 2, "padding": 1, "bias": False}),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", UPS)
def test_transposed_convolutions_to_open_sizes(name):
    torch.manual_seed(0)
    kind, up, options = UPS[name]
    model = Hourglass(kind, up, **options).eval().requires_grad_(False)
    axes = {2: Dim("n", min=1, max=20)}
    last = [6] * (model.down.weight.dim() - 3)
    x = torch.randn(2, 4, 9, *last)
    library = ts.compile(model, (x,), dynamic_shapes=(axes,), config=CONFIG)
    for size in (1, 2, 3, 9, 16, 20):
        x = torch.randn(2, 4, size, *last)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


LINES = [
    nn.MaxPool1d(2),
    nn.MaxPool1d(3, 2, 1),
    nn.MaxPool1d((2,), dilation=2, ceil_mode=True),
    nn.AvgPool1d(3, 3, ceil_mode=True),
    nn.AvgPool1d(4, 2, 1, ceil_mode=True),
    nn.AvgPool1d(4, 2, 1, ceil_mode=True, count_include_pad=False),
    nn.Sequential(*[nn.AvgPool1d(3, 2, ceil_mode=True)] * 2),
]


@pytest.mark.grid
@pytest.mark.parametrize("pool", LINES, ids=str)
def test_pools_of_open_lines(pool):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), pool, nn.Conv1d(8, 4, 1), nn.ReLU())
    model, shapes = model.eval().requires_grad_(False), ({2: Dim("n", min=6, max=40)},)
    library = ts.compile(model, (torch.rand(2, 4, 20),), dynamic_shapes=shapes, config=CONFIG)
    for length in (6, 7, 16, 17, 31, 40):
        x = torch.rand(2, 4, length)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


PLANES = [
    (nn.MaxPool2d(2, 2, ceil_mode=True), nn.Upsample(scale_factor=1.5)),
    (nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.Identity()),
    (nn.MaxPool2d((3, 2), (1, 2), (1, 0), ceil_mode=True), nn.Identity()),
    (nn.AvgPool2d(2, ceil_mode=True), nn.AvgPool2d(3, 2, 1, ceil_mode=True)),
    (nn.AvgPool2d((4, 2), (1, 2), (1, 0), True, False), nn.AvgPool2d(3, 2, ceil_mode=True)),
]


@pytest.mark.grid
@pytest.mark.parametrize(("pool", "before"), PLANES, ids=str)
def test_windows_of_open_planes_are_rounded_up(pool, before):
    torch.manual_seed(0)
    model = nn.Sequential(before, pool, nn.Conv2d(3, 8, 1), nn.ReLU()).eval()
    shapes = ({2: Dim("h", min=4, max=40), 3: Dim("w", min=4, max=40)},)
    model = model.requires_grad_(False)
    library = ts.compile(model, (torch.rand(1, 3, 20, 19),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in [(4, 4), (5, 7), (16, 17), (40, 31)]:
        x = torch.randn(1, 3, height, width)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def cropped(x):
    """Return ``x`` cut to what is left of it after halves and doubles, and that."""
    down = F.interpolate(F.max_pool1d(x, 2), scale_factor=2.0)
    return torch.cat([x[..., : down.shape[-1]], down], 1)


def shorter(x):
    down = F.interpolate(F.max_pool1d(x, 2), scale_factor=2.0)
    least = min(x.shape[-1], down.shape[-1])
    return x[..., :least] + down[..., :least]


def padded(x):
    down = F.interpolate(F.max_pool1d(x, 2), scale_factor=2.0)
    return x + F.pad(down, (0, x.shape[-1] - down.shape[-1]))


@pytest.mark.grid
@pytest.mark.parametrize("join", [cropped, shorter, padded])
def test_connections_of_unlike_extents(join):
    torch.manual_seed(0)
    after = nn.Conv1d(8 if join is cropped else 4, 4, 3, padding=1)
    model = nn.Sequential(nn.Conv1d(4, 4, 3, padding=1), Apply(join), after).eval()
    model, shapes = model.requires_grad_(False), ({2: Dim("n", min=4, max=40)},)
    library = ts.compile(model, (torch.rand(2, 4, 20),), dynamic_shapes=shapes, config=CONFIG)
    for length in (4, 5, 16, 17, 31, 40):
        x = torch.rand(2, 4, length)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_closed_extents_keep_their_operators():
    program = ts.load(Forms(), (torch.rand(1, 2, 9, 8),))
    x = torch.rand(1, 2, 9, 8)
    torch.testing.assert_close(ts.compile(program, config=CONFIG)(x), Forms()(x))


def test_what_is_left_for_one_axis_is_known():
    def rows(x):
        batch, channels, height, width = x.shape
        flat = x.permute(0, 2, 3, 1).reshape(batch * height, width, channels)
        return torch.relu(flat).reshape(batch, height, width, -1)

    model = nn.Sequential(nn.ZeroPad2d(1), Apply(rows), nn.Linear(20, 16), Apply(torch.tanh))
    model.eval().requires_grad_(False)
    shapes = ({2: Dim("h", min=1, max=33)},)
    x = torch.randn(3, 20, 14, 19)
    loaded = ts.load(model, (x,), dynamic_shapes=shapes)
    assert "//" not in str(loaded.module)
    library = ts.compile(model, (x,), dynamic_shapes=shapes, config=CONFIG)
    for height in (1, 14, 33):
        x = torch.randn(3, 20, height, 19)
        torch.testing.assert_close(library(x), model(x), rtol=1e-5, atol=1e-5)
