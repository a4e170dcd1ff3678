"""Random networks over sequences of open batch and length, or over two that are joined."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.opened.case import OpenCase
from tests.opened.layers import Clamped, Joined, Masked, Token
from tests.opened.maker import Maker
from tests.random_networks import Residual
from tests.random_sequences import Along, Apply, Attention, Recurrent

FEATURES = (3, 8, 16, 24, 33, 48)
MOST = 70
EXAMPLE = {"batch": 3, "steps": 21}


class _Sequences(Maker):
    """Makes layers that take ``(batch, steps, features)`` and return such a tensor."""

    def tail(self) -> list[nn.Module]:
        if self.exact:
            return [self.one_of(Clamped(), nn.Sequential(nn.ReLU(), Clamped()))]
        return [self.one_of(nn.ReLU(), nn.GELU(), nn.Tanh(), nn.Identity(), nn.SiLU())]

    def linear(self, features: int) -> nn.Module:
        layer = nn.Linear(features, self.one_of(*FEATURES), bias=self.flip())
        return nn.Sequential(layer, *self.tail())

    def residual(self, features: int) -> nn.Module:
        middle = self.one_of(*FEATURES)
        up, down = nn.Linear(features, middle), nn.Linear(middle, features)
        return nn.Sequential(Residual(nn.Sequential(up, *self.tail(), down)), *self.tail())

    def conv(self, features: int) -> nn.Module:
        outputs = self.one_of(features, *FEATURES)
        kernel, stride, dilation = self.number(1, 5), self.one_of(1, 1, 2), self.one_of(1, 1, 2)
        groups = (
            features if outputs == features and self.flip() else self.divisor(features, outputs)
        )
        shape = (kernel, stride, self.number(0, kernel // 2 + 1), dilation, groups)
        return Along(nn.Conv1d(features, outputs, *shape), *self.tail())

    def transposed(self, features: int) -> nn.Module:
        kernel, stride = self.number(1, 4), self.number(1, 3)
        layer = nn.ConvTranspose1d(features, self.one_of(*FEATURES), kernel, stride)
        return Along(layer, *self.tail())

    def pool(self, features: int) -> nn.Module:
        kernel, stride = self.number(2, 4), self.number(1, 3)
        exact = (nn.MaxPool1d(kernel, stride, kernel // 2), nn.MaxPool1d(kernel, stride))
        others = (nn.AvgPool1d(kernel, stride, ceil_mode=True), nn.AvgPool1d(2))
        return Along(self.one_of(*exact, *(() if self.exact else others)))

    def token(self, features: int) -> nn.Module:
        return nn.Sequential(Token(features, 4 * MOST), *([Clamped()] if self.exact else []))

    def glue(self, _features: int) -> nn.Module:
        before, after = self.number(0, 2), self.number(0, 3)
        return self.one_of(
            Apply(lambda x: x.flip(1)),
            Apply(lambda x: x.transpose(1, 2).contiguous().transpose(1, 2) + 1),
            Apply(lambda x: torch.cat([x[:, after:], x[:, :after]], 1)),
            Apply(lambda x: torch.cat([x[:, ::2], x[:, 1::2].neg()], 1)),
            Apply(lambda x: torch.stack([x, x.neg()], 2).flatten(1, 2)),
            Apply(lambda x: torch.cat(x.chunk(2, 2)[::-1], 2)),
            Apply(lambda x: x[:, : (x.shape[1] + 1) // 2]),
            Apply(lambda x: x[:, -1:] + x),
            Apply(lambda x: x.reshape(-1, x.shape[2])[:, None].reshape(x.shape)),
            Apply(lambda x: torch.cat([x, x.amin(1, keepdim=True)], 1)),
            Apply(lambda x: torch.where(x > x.amax(1, keepdim=True) - 2, x, -x)),
            Along(Apply(lambda x: F.pad(x, (before, after)))),
            Along(Apply(lambda x: F.pad(x, (before, 1), mode="replicate"))),
            Along(nn.Upsample(scale_factor=2)),
        )

    def recurrent(self, features: int) -> nn.Module:
        kind = self.one_of(nn.RNN, nn.GRU, nn.LSTM)
        layers, both = self.number(1, 2), self.flip()
        hidden = self.number(2, 20)
        return Recurrent(kind(features, hidden, layers, batch_first=True, bidirectional=both))

    def attention(self, features: int) -> nn.Module:
        own = Attention(features, self.divisor(features), causal=self.flip())
        return self.one_of(own, Residual(own), Masked(features))

    def real(self, features: int) -> nn.Module:
        """Return what sums real numbers only."""
        return self.one_of(
            nn.LayerNorm(features),
            nn.RMSNorm(features),
            Along(self.norm(nn.BatchNorm1d(features))),
            Along(nn.GroupNorm(self.divisor(features), features)),
            Along(nn.InstanceNorm1d(features)),
            Apply(lambda x: x - x.mean(1, keepdim=True)),
            Apply(lambda x: torch.softmax(x, 1)),
            Apply(lambda x: F.normalize(x, dim=1)),
            Apply(lambda x: x.cumsum(1) / 8),
            Apply(lambda x: torch.softmax(x @ x.transpose(1, 2) / x.shape[2], -1) @ x),
            Apply(lambda x: x / x.shape[1]),
        )

    def last(self, features: int) -> list[nn.Module]:
        """Return the end of a network: none, a head on a row, or on the largest of each feature."""
        head = nn.Linear(features, self.number(1, 30))
        pick = self.one_of(lambda x: x[:, 0], lambda x: x.amax(1), lambda x: x[:, -1])
        return self.one_of([], [Apply(pick), head])


def random_sequence(seed: int, *, exact: bool = False) -> OpenCase:
    """Return a pruned network over sequences, of which batch or length or both are open."""
    torch.manual_seed(seed)
    maker = _Sequences(seed, exact=exact)
    names = maker.one_of(("batch",), ("steps",), ("steps",), ("batch", "steps"))
    sizes = [n if n in names else EXAMPLE[n] for n in EXAMPLE]
    kinds = [maker.linear, maker.residual, maker.conv, maker.transposed]
    kinds += [maker.pool, maker.token, maker.glue, maker.glue]
    kinds += [] if exact else [maker.attention, maker.attention, maker.real]
    if not exact and "steps" not in names:  # which PyTorch writes out, step by step
        kinds += [maker.recurrent, maker.recurrent]
    shape, example = [*sizes, maker.one_of(*FEATURES)], {n: EXAMPLE[n] for n in names}
    case = maker.network(shape, example, kinds, maker.last, axis=2, most=MOST)
    return _two(maker, case) if "steps" in names and seed % 4 == 3 else case


def _two(maker: _Sequences, case: OpenCase) -> OpenCase:
    """Return the case behind two sequences of the same features and lengths of their own."""
    (shape,) = case.shapes
    before = maker.residual(int(shape[2]))
    maker.weigh(before)
    model = Joined(before, case.model, exact=case.exact).eval().requires_grad_(False)
    least, most = case.limits["steps"]
    limits = {**case.limits, "others": (1, most), "steps": (max(2, least), most)}
    example = {**case.example, "others": 12}
    other = [shape[0], "others", shape[2]]
    return OpenCase(model, [shape, other], limits, example, case.exact, ["joined", *case.steps])
