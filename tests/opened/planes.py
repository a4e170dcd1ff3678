"""Random networks over images of open batch, height and width."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.opened.case import OpenCase
from tests.opened.layers import Clamped, Fit, Pixels, Rows
from tests.opened.maker import Maker
from tests.random_networks import Concat, Gate, Residual
from tests.random_sequences import Apply, Attention, Recurrent

WIDTHS = (3, 8, 16, 20, 32, 48)
MOST = 33
EXAMPLE = {"batch": 3, "height": 14, "width": 19}


class _Planes(Maker):
    """Makes layers that take ``(batch, channels, height, width)`` and return such planes."""

    def tail(self, channels: int) -> list[nn.Module]:
        if self.exact:
            return [self.one_of(Clamped(), nn.Sequential(nn.ReLU(), Clamped()))]
        norm = [self.norm(nn.BatchNorm2d(channels))] if self.flip() else []
        acts = (nn.ReLU(), nn.ReLU6(), nn.SiLU(), nn.Hardswish(), nn.GELU(), nn.LeakyReLU(0.1))
        return [*norm, self.one_of(*acts)]

    def conv(self, channels: int, *, width: int = 0, stride: int = 0) -> nn.Module:
        outputs = width or self.one_of(*WIDTHS)
        kernel = (self.one_of(1, 1, 3, 5), self.one_of(1, 3, 3))
        kernel = kernel if self.flip(0.3) else (kernel[0], kernel[0])
        dilation = 2 if self.flip(0.15) else 1
        padding = tuple(dilation * (k - 1) // 2 for k in kernel)
        stride = stride or self.one_of(1, 1, 2)
        groups = self.divisor(channels, outputs) if self.flip(0.3) else 1
        shape = (kernel, stride, padding, dilation, groups)
        layer = nn.Conv2d(channels, outputs, *shape, bias=self.flip())
        return nn.Sequential(layer, *self.tail(outputs))

    def depthwise(self, channels: int) -> nn.Module:
        kernel, stride = self.one_of(3, 5), self.one_of(1, 1, 2)
        layer = nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels)
        return nn.Sequential(layer, *self.tail(channels))

    def residual(self, channels: int) -> nn.Module:
        middle = self.one_of(*WIDTHS)
        body = (
            self.conv(channels, width=middle, stride=1),
            self.conv(middle, width=channels, stride=1),
        )
        return nn.Sequential(Residual(nn.Sequential(*body)), *self.tail(channels))

    def branch(self, channels: int) -> nn.Module:
        return Concat(self.conv(channels, stride=1))

    def transposed(self, channels: int) -> nn.Module:
        outputs, kernel = self.one_of(*WIDTHS), self.one_of(2, 3, 4)
        layer = nn.ConvTranspose2d(channels, outputs, kernel, 2, padding=self.one_of(0, 1))
        return nn.Sequential(layer, *self.tail(outputs))

    def skip(self, channels: int) -> nn.Module:
        body = Fit(self.conv(channels, width=channels, stride=2), self.mode(), added=self.flip())
        return nn.Sequential(body, *self.tail(channels)[-1:])

    def mode(self) -> str:
        return "nearest" if self.exact else self.one_of("nearest", "bilinear", "bicubic")

    def resize(self, _channels: int) -> nn.Module:
        mode, by = self.mode(), self.one_of(2, 3, 1.5, 0.5)
        corners = self.flip() and mode != "nearest"
        options = {"align_corners": corners} if mode != "nearest" else {}
        return Apply(lambda x: F.interpolate(x, scale_factor=by, mode=mode, **options))

    def pool(self, channels: int) -> nn.Module:
        exact = (
            nn.MaxPool2d(2),
            nn.MaxPool2d(3, 2, 1),
            nn.MaxPool2d(3, 1, 1),
            nn.MaxPool2d(2, 2, ceil_mode=True),
        )
        others = (
            nn.AvgPool2d(2),
            nn.AvgPool2d(3, 2, 1),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            nn.AdaptiveAvgPool2d((None, 4)),
        )
        return self.one_of(*exact) if self.exact else self.one_of(*exact, *others)

    def glue(self, channels: int) -> nn.Module:
        axis = self.one_of(2, 3)
        return self.one_of(
            Apply(lambda x: x.flip(axis)),
            Apply(lambda x: x.transpose(2, 3).contiguous()),
            Apply(lambda x: x.narrow(axis, 1, x.shape[axis] - 1)),
            Apply(lambda x: x[:, :, : (x.shape[2] + 1) // 2]),
            Apply(lambda x: torch.cat([x[:, :, 1:], x[:, :, :1]], 2)),
            Apply(lambda x: torch.cat([x, x.flip(axis)], axis)),
            Apply(lambda x: F.pad(x, (1, 2, 0, 1))),
            Apply(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
            Apply(lambda x: F.pad(x, (2, 1, 0, 1), mode="replicate")),
            Apply(lambda x: torch.cat(x.chunk(2, 1)[::-1], 1)),
            Apply(lambda x: torch.stack([x, -x], 2).flatten(1, 2)),
            Apply(lambda x: x - x.amax((2, 3), keepdim=True)),
        )

    def rows(self, channels: int) -> nn.Module:
        outputs = self.one_of(*WIDTHS)
        linear = nn.Sequential(nn.Linear(channels, outputs), *self.tail(outputs)[-1:])
        if self.exact:
            return Pixels(linear)
        kind = self.one_of(nn.GRU, nn.LSTM)
        return self.one_of(
            Pixels(linear),
            Pixels(Attention(channels, 1, causal=False)),
            Rows(Recurrent(kind(channels, self.number(4, 20), batch_first=True))),
            Rows(Attention(channels, 1, causal=self.flip())),
            Rows(linear),
        )

    def last(self, channels: int) -> list[nn.Module]:
        """Return the end of a network: none, a classifier, or a layer of each column."""
        kind, outputs = self.number(0, 3), self.number(1, 30)
        if kind == 0:
            return []
        if kind == 1:
            pool = nn.AdaptiveMaxPool2d(1) if self.exact else nn.AdaptiveAvgPool2d(1)
            return [pool, nn.Flatten(), nn.Linear(channels, outputs)]
        return [Apply(lambda x: x.amax(2).transpose(1, 2)), nn.Linear(channels, outputs)]

    def real(self, channels: int) -> nn.Module:
        """Return what sums real numbers only."""
        groups = self.divisor(channels)
        return self.one_of(
            Gate(channels, self.one_of(4, 8)),
            nn.GroupNorm(groups, channels),
            nn.InstanceNorm2d(channels, affine=True),
            Pixels(nn.LayerNorm(channels)),
            Apply(lambda x: x - x.mean((2, 3), keepdim=True)),
            Apply(lambda x: torch.softmax(x, 3)),
            Apply(lambda x: x * torch.sigmoid(x.mean(1, keepdim=True))),
            Apply(lambda x: F.normalize(x, dim=1)),
        )


def random_planes(seed: int, *, exact: bool = False) -> OpenCase:
    """Return a pruned network over images, of which some axes are open."""
    torch.manual_seed(seed)
    maker = _Planes(seed, exact=exact)
    names = [n for n in EXAMPLE if maker.flip(0.6)] or [maker.one_of(*EXAMPLE)]
    sizes = [n if n in names else EXAMPLE[n] for n in EXAMPLE]
    shape = [sizes[0], maker.one_of(3, 8, 16), *sizes[1:]]
    kinds = [maker.conv, maker.conv, maker.depthwise, maker.residual, maker.branch]
    kinds += [maker.transposed, maker.skip, maker.resize, maker.pool, maker.glue, maker.rows]
    kinds += [] if exact else [maker.real, maker.real]
    example = {n: EXAMPLE[n] for n in names}
    return maker.network(shape, example, kinds, maker.last, axis=1, most=MOST)
