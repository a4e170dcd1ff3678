"""Random networks over sequences: recurrent layers, attention, 1-D convolutions, and axes moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEATURES = [1, 3, 8, 16, 24, 33]


class Attention(nn.Module):
    """Scaled products of a sequence with itself, causal or not."""

    def __init__(self, features: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.joined, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of ``x``, ``(batch, steps, features)``."""
        parts = self.joined(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(*parts.unbind(), is_causal=self.causal)
        return self.out(found.transpose(1, 2).flatten(2))


class Recurrent(nn.Module):
    """The outputs of a recurrent layer."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(batch, steps, features)``."""
        return self.layer(x)[0]


class Along(nn.Module):
    """A 1-D layer of features, which come last in ``x``."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``(batch, steps, features)``."""
        return self.layers(x.transpose(1, 2)).transpose(1, 2)


class Apply(nn.Module):
    """A function of one tensor, with a weight that it may use."""

    def __init__(self, function: Callable[..., Tensor], *weight: Tensor) -> None:
        super().__init__()
        self.function, self.weight = function, nn.ParameterList(weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function returns."""
        return self.function(x, *self.weight)


class _Maker:
    """Makes layers that take ``(batch, steps, features)`` and return such a tensor."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, *values: object) -> object:
        return values[int(self.rng.integers(len(values)))]

    def number(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``."""
        return int(self.rng.integers(low, high + 1))

    def divisor(self, *numbers: int) -> int:
        return int(self.pick(*(d for d in (1, 2, 3, 4, 8) if all(n % d == 0 for n in numbers))))

    def linear(self, _steps: int, features: int) -> nn.Module:
        layer = nn.Linear(features, int(self.pick(*FEATURES)), bias=bool(self.pick(0, 1)))
        return nn.Sequential(layer, self.pick(nn.ReLU, nn.GELU, nn.Tanh, nn.Identity)())

    def convolution(self, _steps: int, features: int) -> nn.Module:
        outputs = int(self.pick(features, *FEATURES))
        kernel, stride, dilation = self.number(1, 5), self.number(1, 2), self.number(1, 2)
        padding = self.number(0, kernel // 2 + 1)
        groups = features if outputs == features else self.divisor(features, outputs)
        return Along(
            nn.Conv1d(features, outputs, kernel, stride, padding, dilation, groups),
            self.pick(nn.PReLU(), nn.BatchNorm1d(outputs), nn.Softplus()),
        )

    def transposed(self, _steps: int, features: int) -> nn.Module:
        kernel, stride = self.number(1, 4), self.number(1, 3)
        outputs = int(self.pick(*FEATURES))
        extra = self.number(0, stride - 1)
        return Along(nn.ConvTranspose1d(features, outputs, kernel, stride, output_padding=extra))

    def recurrent(self, _steps: int, features: int) -> nn.Module:
        kind = self.pick(nn.RNN, nn.GRU, nn.LSTM)
        return Recurrent(
            kind(
                features,
                self.number(2, 20),
                self.number(1, 2),
                batch_first=True,
                bidirectional=bool(self.pick(0, 1)),
            )
        )

    def attention(self, _steps: int, features: int) -> nn.Module:
        return Attention(features, self.divisor(features), bool(self.pick(0, 1)))

    def norm(self, _steps: int, features: int) -> nn.Module:
        return self.pick(
            nn.LayerNorm(features),
            nn.RMSNorm(features),
            Along(nn.GroupNorm(self.divisor(features), features)),
            Along(nn.InstanceNorm1d(features)),
        )

    def pool(self, steps: int, features: int) -> nn.Module:
        kernel = min(self.number(1, 5), steps)
        return self.pick(
            Along(nn.MaxPool1d(kernel, self.number(1, 3), kernel // 2)),
            Along(nn.AvgPool1d(kernel, self.number(1, 3), ceil_mode=True)),
            Along(nn.AdaptiveAvgPool1d(self.number(1, 7))),
            Along(nn.AdaptiveMaxPool1d(self.number(1, 7))),
            nn.AdaptiveAvgPool1d(min(features, 5)),
        )

    def product(self, steps: int, features: int) -> nn.Module:
        over_features = torch.randn(features, self.number(2, 20)) / features**0.5
        over_steps = torch.randn(steps, steps) / steps**0.5
        return self.pick(
            Apply(lambda x, w: torch.einsum("btf,fg->btg", x, w), over_features),
            Apply(lambda x, w: torch.einsum("btf,ts->bsf", x, w), over_steps),
            Apply(lambda x, w: x @ w, over_features),
            Apply(lambda x, w: w @ x, over_steps),
            Apply(lambda x: torch.softmax(x @ x.transpose(1, 2) / features, -1) @ x),
        )

    def reduction(self, _steps: int, _features: int) -> nn.Module:
        axis = self.number(1, 2)
        return self.pick(
            Apply(lambda x: x - x.mean(axis, keepdim=True)),
            Apply(lambda x: x / (1 + x.abs().amax(axis, keepdim=True))),
            Apply(lambda x: x * x.sum((1, 2), keepdim=True).tanh()),
            Apply(lambda x: torch.log_softmax(x, axis)),
            Apply(lambda x: torch.softmax(x, axis)),
            Apply(lambda x: F.normalize(x, dim=axis)),
            Apply(lambda x: x / (1 + x.std(axis, keepdim=True, correction=0))),
            Apply(lambda x: x.cumsum(axis) / 8),
            Apply(lambda x: x.logcumsumexp(axis)),
            Apply(lambda x: torch.cat([x, x.amin(axis, keepdim=True)], axis)),
        )

    def move(self, steps: int, _features: int) -> nn.Module:
        axis, before, after = self.number(1, 2), self.number(0, 3), self.number(0, 3)
        mode = self.pick("constant", "replicate", "circular", "reflect")
        widths = (min(before, steps - 1), min(after, steps - 1))
        return self.pick(
            Apply(lambda x: x.transpose(1, 2).contiguous()),
            Apply(lambda x: x.flip(axis)),
            Apply(lambda x: x.roll(before, axis)),
            Along(Apply(lambda x: F.pad(x, widths, mode=mode))),
            Apply(lambda x: torch.cat([x[:, ::2], x[:, 1::2].neg()], 1)),
            Apply(lambda x: torch.stack([x, x.square()], 2).flatten(1, 2)),
            Apply(lambda x: torch.cat(x.chunk(2, axis)[::-1], axis)),
            Apply(lambda x: x.unfold(1, min(steps, 3), 2).flatten(2)),
            Apply(lambda x: x.sort(axis).values),
            Apply(lambda x: x[:, min(1, steps - 1) :]),
        )


def random_sequences(seed: int) -> tuple[nn.Module, Tensor]:
    """Return a pruned network in evaluation mode, and an input ``(batch, steps, features)``."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    maker = _Maker(rng)
    makers = [
        *(maker.linear, maker.convolution, maker.transposed, maker.recurrent, maker.attention),
        *(maker.norm, maker.pool, maker.product, maker.reduction, maker.move),
    ]
    x = torch.randn(int(rng.choice([1, 2, 3])), maker.number(2, 30), int(maker.pick(*FEATURES)))
    model, shape = nn.Sequential(), x.shape
    while len(model) < 5:
        layer = makers[int(rng.integers(len(makers)))](*shape[1:]).eval()
        _prune(layer, rng)
        try:
            found = nn.Sequential(*model, layer)(x)
        except RuntimeError:  # PyTorch refuses a kernel larger than its input
            continue
        if found.ndim == 3 and 0 < found.numel() <= 20000 and found.isfinite().all():
            model.append(layer)
            shape = found.shape
    return model.eval(), x


def _prune(layer: nn.Module, rng: np.random.Generator) -> None:
    """Set weights to zero, of some layers."""
    share = float(rng.choice([0.0, 0.5, 0.75, 0.9]))
    with torch.no_grad():
        for name, weight in layer.named_parameters():
            if weight.ndim > 1 and "norm" not in name:
                weight.mul_(torch.rand(weight.shape) >= share)
