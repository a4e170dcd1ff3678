"""Removed filters: smaller layers with the same results, through every sort of tie."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax, tirx

import tvm_sparse as ts
from tests.passes.modules import module
from tests.random_networks import Concat
from tvm_sparse.passes.graph.rewrite import constant
from tvm_sparse.passes.shrink.remove_channels import RemoveChannels

FAST = ts.Config(measure=False)


def check(model: nn.Module, x: torch.Tensor) -> dict[str, tuple[int, ...]]:
    """Compare with PyTorch; return the shape of each layer's weight as it was compiled."""
    model.eval()
    library = ts.compile(model, (x,), config=FAST)
    with torch.no_grad():
        expected = model(x)
    got = library(x)
    assert float((got - expected).abs().max()) <= 2e-5 * float(expected.abs().max())
    return {d.layer: tuple(d.shape) for d in library.decisions}


def norm(channels: int, dead: slice, silent: bool) -> nn.BatchNorm2d:
    layer = nn.BatchNorm2d(channels)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    layer.bias.data.normal_()
    if silent:
        layer.running_mean[dead] = 0
        layer.bias.data[dead] = 0
    return layer


POOLS = {
    1: [nn.Identity()],  # poolings of lines are poolings of planes, channels first
    2: [nn.MaxPool2d(2, 2), nn.AvgPool2d(2, 1), nn.AdaptiveAvgPool2d(1)],
    3: [nn.MaxPool3d(2, 2), nn.AvgPool3d(2, 1), nn.AdaptiveAvgPool3d(1)],
}


@pytest.mark.grid
@pytest.mark.parametrize(("rank", "conv"), [(1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)])
def test_filters_of_any_rank_leave_through_poolings_and_depthwise_layers(rank, conv):
    torch.manual_seed(0)
    depth = conv(48, 48, 3, padding=1, groups=48, bias=False)
    layers = [conv(8, 48, 3, padding=1), nn.ReLU(), depth, *POOLS[rank], conv(48, 24, 1)]
    model = nn.Sequential(*layers)
    model[0].weight.data[7:39] = 0
    model[0].bias.data[7:39] = 0
    shapes = check(model, torch.randn(2, 8, *[6, 9, 8][:rank]))
    assert [shape[:2] for shape in shapes.values()] == [(16, 8), (16, 1), (24, 16)]


@pytest.mark.grid
@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("kernel", [1, 3])
def test_filters_leave_through_batch_norm_and_activation(silent, kernel):
    torch.manual_seed(0)
    conv = nn.Conv2d(8, 64, 3, padding=1)
    conv.weight.data[20:52] = 0
    conv.bias.data[20:52] = 0
    after = nn.Conv2d(64, 24, kernel, padding=kernel // 2)
    model = nn.Sequential(conv, norm(64, slice(20, 52), silent), nn.ReLU(), after)
    shapes = check(model, torch.randn(2, 8, 7, 7))
    # A constant that is not zero cannot cross a padded convolution: the border feels it.
    gone = silent or kernel == 1
    if gone:
        assert shapes["0"][0] == 32 and shapes["3"][1] == 32
    else:
        assert 32 <= shapes["0"][0] < 64


def test_inputs_that_nothing_reads():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 8))
    model[2].weight.data[:, 5:40] = 0
    assert check(model, torch.randn(4, 16)) == {"0": (16, 16), "2": (8, 16)}


class Bytes(nn.Module):
    """What the bytes of a tensor mean, whatever they are made by."""

    def forward(self, x):
        steps = torch.round(x * 0.5).clamp(0, 255)
        return steps.to(torch.uint8).to(torch.float32) * 2


@pytest.mark.grid
@pytest.mark.parametrize("between", [Bytes(), nn.ReLU6(), nn.Softplus()])
def test_inputs_that_nothing_reads_behind_operators_without_constants(between):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 48), between, nn.Linear(48, 8))
    for layer in (model[0], model[2]):
        for parameter in layer.parameters():
            parameter.data = torch.randint(-3, 4, parameter.shape).float()
    model[2].weight.data[:, 5:40] = 0
    assert check(model, torch.randint(-5, 6, (4, 16)).float()) == {"0": (16, 16), "2": (8, 16)}


def test_products_keep_the_type_of_their_sums():
    weights = {
        name: constant(np.ones(shape, np.float16), name)
        for name, shape in (("a.weight", (16, 48)), ("b.weight", (48, 16)))
    }
    weights["b.weight"] = constant(np.repeat([1, 0, 0], 16)[:, None] * np.ones((48, 16), "float16"))

    def body(x):
        sums = relax.op.matmul(x, weights["a.weight"], out_dtype="float32")
        return relax.op.matmul(relax.op.astype(sums, "float16"), weights["b.weight"], "float32")

    after = RemoveChannels()(module(body, (4, 16), dtype="float16"))
    types = [binding.var.ty for binding in after["main"].body.blocks[0].bindings][:3]
    assert [tuple(map(int, ty.shape)) for ty in types] == [(4, 16)] * 3
    assert [str(ty.dtype) for ty in types] == ["float32", "float16", "float32"]


class Tied(nn.Module):
    """A residual sum, a depthwise layer and a squeeze-excite product share their channels."""

    def __init__(self, dead: slice, both: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 32, 1), nn.Conv2d(32, 32, 3, padding=1)
        self.depth = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.gate = nn.Conv2d(32, 32, 1)
        self.out = nn.Conv2d(32, 8, 1)
        for conv in (self.a, self.b) if both else (self.b,):
            conv.weight.data[dead] = 0
            conv.bias.data[dead] = 0
        self.depth.bias.data[dead] = 0  # else the gate would scale a constant: not removable

    def forward(self, x):
        x = self.a(x)
        x = torch.relu(x + self.b(x))
        x = nn.functional.silu(self.depth(x))
        x = x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        return self.out(nn.functional.max_pool2d(x, 2))


@pytest.mark.grid
@pytest.mark.parametrize("both", [True, False])
def test_ties_are_solved_together(both):
    torch.manual_seed(0)
    shapes = check(Tied(slice(3, 21), both), torch.randn(1, 8, 6, 6))
    count = 16 if both else 32
    assert shapes["a"][0] == shapes["b"][0] == (count if both else 32)
    assert shapes["b"][1] == (count if both else 32)


def test_outputs_of_the_network_stay():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 64, 1))
    model[0].weight.data[:40] = 0
    assert check(model, torch.randn(1, 8, 4, 4)) == {"0": (64, 8, 1, 1)}


def test_flattened_channels_stay():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 48, 1), nn.Flatten(), nn.Linear(48 * 9, 5))
    model[0].weight.data[:40] = 0
    model[0].bias.data[:40] = 0
    assert check(model, torch.randn(1, 4, 3, 3))["0"][0] == 48


def test_the_reason_tells_what_went():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 8)).eval()
    model[0].weight.data[16:] = 0
    model[0].bias.data[16:] = 0
    library = ts.compile(model, (torch.randn(4, 16),), config=FAST)
    assert [d.reason.split(";")[0] for d in library.decisions] == [
        "32 of 48 outputs removed",
        "32 of 48 inputs removed",
    ]


def test_reshapes_keep_their_channels():
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(16, 48), nn.Linear(48, 8)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)).reshape(1, -1, 48))

    torch.manual_seed(0)
    model = Tokens()
    model.a.weight.data[16:] = 0
    model.a.bias.data[16:] = 0
    assert check(model, torch.randn(6, 16))["a"] == (16, 16)


def test_concatenated_channels_stay():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(32, 48, 1), nn.ReLU(), nn.Conv2d(48, 16, 1))
    inner[0].weight.data[16:] = 0
    inner[0].bias.data[16:] = 0
    model = nn.Sequential(nn.Conv2d(3, 32, 1), Concat(inner), nn.Conv2d(48, 8, 1))
    shapes = check(model, torch.randn(1, 3, 5, 5))
    assert shapes["1.branch.0"] == (16, 32, 1, 1)
    assert shapes["2"] == (8, 48, 1, 1)


def test_what_is_known_of_extents_stays():
    """Sums behind an extent that is a multiple keep their shapes, though filters went."""
    height = tirx.Var("height", "int64")
    kind = {"data_layout": "NHWC", "kernel_layout": "OHWI", "strides": 2, "padding": 1}
    rows = np.ones((48, 3, 3, 16), np.float32)
    columns = np.zeros((16, 1, 1, 48), np.float32)
    columns[..., :16] = 1
    x = relax.Var("x", relax.TensorType((1, height, 8, 16), "float32"))
    even = relax.TensorType((1, height // 2 * 2, 8, 16), "float32")
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            cast = builder.match_cast(x, even)
            one, other = (
                builder.emit(relax.op.nn.conv2d(y, constant(rows, name), **kind))
                for y, name in (
                    (cast, "a.weight"),
                    (builder.emit(relax.op.nn.relu(cast)), "b.weight"),
                )
            )
            last = builder.emit(relax.op.add(one, other))
            plain = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
            end = relax.op.nn.conv2d(last, constant(columns, "c.weight"), **plain)
            out = builder.emit_output(end)
        builder.emit_func_output(out)
    before = builder.get()
    after = RemoveChannels()(before)
    assert "(48, 3, 3, 16)" not in after.script(show_meta=True)
    assert "match_cast" in after.script()
    assert str(after["main"].ret_ty) == str(before["main"].ret_ty)
