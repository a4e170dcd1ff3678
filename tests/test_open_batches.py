"""Every operator with an open batch, in floats and in bytes: right for any extent, or refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
IMAGE, LINE, VOLUME, ROWS, TOKENS = (16, 12, 10), (16, 20), (8, 6, 5, 4), (48,), (9, 32)


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Recurrent(nn.Module):
    """The sequence that a recurrent layer gives."""

    def __init__(self, layer, **options):
        super().__init__()
        self.layer = layer(32, 24, batch_first=True, **options)

    def forward(self, x):
        return self.layer(x)[0]


class Attention(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        return self.layer(x, x, x, need_weights=False)[0]


class Bilinear(nn.Module):
    """A bilinear layer of rows with themselves."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(48, 48, 5)

    def forward(self, x):
        return self.layer(x, x)


CASES = {
    "linear": (nn.Linear(48, 40), ROWS),
    "linear of tokens": (nn.Linear(32, 40), TOKENS),
    "bilinear": (Bilinear(), ROWS),
    "conv1d": (nn.Conv1d(16, 24, 3, padding=1), LINE),
    "conv2d": (nn.Conv2d(16, 32, 3, padding=1), IMAGE),
    "conv2d, strided": (nn.Conv2d(16, 24, 3, 2, 1), IMAGE),
    "conv2d, pointwise": (nn.Conv2d(16, 32, 1), IMAGE),
    "conv2d, groups": (nn.Conv2d(16, 32, 3, padding=1, groups=2), IMAGE),
    "conv2d, depthwise": (nn.Conv2d(16, 16, 3, padding=1, groups=16), IMAGE),
    "conv2d, dilated": (nn.Conv2d(16, 24, 3, padding=2, dilation=2), IMAGE),
    "conv3d": (nn.Conv3d(8, 16, 3, padding=1), VOLUME),
    "transposed": (nn.ConvTranspose2d(16, 8, 2, 2), IMAGE),
    "transposed, overlapping": (nn.ConvTranspose2d(16, 8, 3, 2, 1), IMAGE),
    "transposed lines": (nn.ConvTranspose1d(16, 8, 4, 2, 1), LINE),
    "batch norm": (nn.BatchNorm2d(16), IMAGE),
    "layer norm": (nn.LayerNorm(32), TOKENS),
    "group norm": (nn.GroupNorm(4, 16), IMAGE),
    "instance norm": (nn.InstanceNorm2d(16), IMAGE),
    "rms norm": (nn.RMSNorm(32), TOKENS),
    "max pool": (nn.MaxPool2d(2), IMAGE),
    "max pool, overlapping": (nn.MaxPool2d(3, 2, 1), IMAGE),
    "max pool of lines": (nn.MaxPool1d(3, 2, 1), LINE),
    "mean pool": (nn.AvgPool2d(2), IMAGE),
    "mean pool, overlapping": (nn.AvgPool2d(3, 2, 1), IMAGE),
    "mean pool, borders left out": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE),
    "mean of planes": (nn.AdaptiveAvgPool2d(1), IMAGE),
    "adaptive mean": (nn.AdaptiveAvgPool2d((5, 3)), IMAGE),
    "adaptive maxima": (nn.AdaptiveMaxPool2d((5, 3)), IMAGE),
    "nearest": (nn.Upsample(scale_factor=2), IMAGE),
    "bilinear planes": (nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "bicubic planes": (nn.Upsample(size=(7, 15), mode="bicubic"), IMAGE),
    "pixel shuffle": (nn.PixelShuffle(2), IMAGE),
    "reflected": (nn.ReflectionPad2d(2), IMAGE),
    "repeated borders": (nn.ReplicationPad2d(2), IMAGE),
    "zeros around": (nn.ZeroPad2d((1, 2, 0, 3)), IMAGE),
    "softmax": (nn.Softmax(-1), TOKENS),
    "softmax of channels": (nn.Softmax(1), IMAGE),
    "attention": (Attention(), TOKENS),
    "encoder": (nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), TOKENS),
    "lstm": (Recurrent(nn.LSTM, bidirectional=True), TOKENS),
    "gru": (Recurrent(nn.GRU), TOKENS),
    "rnn": (Recurrent(nn.RNN), TOKENS),
    "gelu": (nn.GELU(), TOKENS),
    "silu": (nn.SiLU(), IMAGE),
    "hard swish": (nn.Hardswish(), IMAGE),
    "channels joined": (Function(lambda x: torch.cat([x, x.relu(), -x], 1)), IMAGE),
    "channels cut": (Function(lambda x: x[:, 3:11]), IMAGE),
    "channels split": (Function(lambda x: torch.chunk(x, 2, 1)[1] + 1), IMAGE),
    "turned": (Function(lambda x: x.flip(-1)), IMAGE),
    "rolled": (Function(lambda x: x.roll(2, -1)), IMAGE),
    "transposed axes": (Function(lambda x: x.transpose(1, 2)), IMAGE),
    "flattened": (nn.Flatten(), IMAGE),
    "cumulative": (Function(lambda x: x.cumsum(1)), TOKENS),
    "sorted": (Function(lambda x: x.sort(-1).values), TOKENS),
    "largest few": (Function(lambda x: x.topk(3, -1).values), TOKENS),
    "places of the largest": (Function(lambda x: x.argmax(-1).float()), TOKENS),
    "variance": (Function(lambda x: x.var(-1)), TOKENS),
    "normalised": (Function(lambda x: F.normalize(x, dim=-1)), TOKENS),
    "products of rows": (Function(lambda x: x @ x.transpose(-1, -2)), TOKENS),
}


def between_layers(layer, shape):
    """Return ``layer`` between layers that bytes are made of and read."""
    if len(shape) == 1:
        return nn.Sequential(nn.Linear(48, 48), nn.ReLU(), layer)
    if shape in (IMAGE, LINE, VOLUME):
        kind = {2: nn.Conv1d, 3: nn.Conv2d, 4: nn.Conv3d}[len(shape)]
        return nn.Sequential(kind(shape[0], shape[0], 1), nn.ReLU(), layer)
    return nn.Sequential(nn.Linear(32, 32), nn.ReLU(), layer)


def compiled(name, *, in_bytes):
    """Return the module of a case, or its program in bytes, and the library with an open batch."""
    layer, shape = CASES[name]
    torch.manual_seed(0)
    module = between_layers(layer, shape).eval().requires_grad_(False)
    x, shapes = torch.randn(3, *shape), ({0: torch.export.Dim("n")},)
    if not in_bytes:
        return module, ts.compile(module, (x,), dynamic_shapes=shapes, config=CONFIG), x
    program = ts.quantize(module, [x], dynamic_shapes=shapes)
    return program.module(), ts.compile(program, config=CONFIG), x


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_floats(name):
    module, library, x = compiled(name, in_bytes=False)
    for other in (x, x[:1], torch.cat([x, x, x[:1]])):
        torch.testing.assert_close(library(other), module(other), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_bytes(name):
    program, library, x = compiled(name, in_bytes=True)
    for other in (x, x[:1], torch.cat([x, x, x[:1]])):
        found, expected = library(other), program(other)
        error = (found - expected).abs()
        # A sum next to a half may be rounded to the other byte.
        assert (error > 1e-3 * expected.abs().max()).float().mean() < 0.02
        assert error.max() <= 0.05 * expected.abs().max() or "places" in name


def test_candidates_are_measured_with_their_own_arrays():
    """Of compressed rows, the format for one image was timed on the arrays of that for many."""
    torch.manual_seed(0)
    layer = nn.Conv2d(256, 512, 1, stride=2, bias=False).eval()
    with torch.no_grad():
        places = torch.rand(512, 16, 16).argsort(-1) < 4
        layer.weight *= places.reshape(512, 256, 1, 1)
    x = torch.randn(2, 256, 56, 56)
    open_batch = {0: torch.export.Dim("batch", min=1, max=64)}
    config = ts.Config(cache=False, tuned=False)
    library = ts.compile(layer, (x,), dynamic_shapes=(open_batch,), config=config)
    (decision,) = library.decisions
    assert decision.dense_us and decision.sparse_us
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(library(x)), layer(x), rtol=1e-4, atol=1e-4)
