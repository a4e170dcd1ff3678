"""The networks of the zoo: one of each family, with random weights in real configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.zoo import cache_name, package, timm_model, torchvision_model

Network = tuple[nn.Module, tuple[torch.Tensor, ...]]


class Waves(nn.Module):
    """The feature extractor of wav2vec 2.0: seven convolutions over samples of sound."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        taps, strides = (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)
        inputs = (1, *[width] * 6)
        self.layers = nn.ModuleList(
            nn.Conv1d(i, width, k, s, bias=False)
            for i, k, s in zip(inputs, taps, strides, strict=True)
        )
        self.norm = nn.GroupNorm(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, samples)`` to ``(batch, width, frames)``."""
        x = x[:, None]
        for place, layer in enumerate(self.layers):
            x = layer(x)
            x = F.gelu(x if place else self.norm(x))
        return x


class UNet(nn.Module):
    """A U-Net of four levels that goes up by transposed convolutions."""

    def __init__(self, width: int = 32, classes: int = 2) -> None:
        super().__init__()
        widths = [width << level for level in range(4)]
        self.down = nn.ModuleList(
            _twice(i, o) for i, o in zip([3, *widths[:-1]], widths, strict=True)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.joined = nn.ModuleList(_twice(2 * w, w) for w in widths[-2::-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images to scores of classes at every place."""
        kept = []
        for level, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for up, joined, skip in zip(self.up, self.joined, kept[-2::-1], strict=True):
            x = joined(torch.cat([skip, up(x)], 1))
        return self.head(x)


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i in (inputs, outputs):
        layers += [nn.Conv2d(i, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)]
        layers += [nn.ReLU()]
    return nn.Sequential(*layers)


class Recurrent(nn.Module):
    """A classifier of sequences of tokens: two recurrent layers in both directions."""

    def __init__(self, cell: type[nn.RNNBase] = nn.GRU, width: int = 256) -> None:
        super().__init__()
        self.table = nn.Embedding(10000, 128)
        self.cells = cell(128, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, steps)`` tokens to scores of classes."""
        return self.head(self.cells(self.table(tokens))[0][:, -1])


class Named(nn.Module):
    """A transformers model that takes its tensors by position and returns tensors."""

    def __init__(
        self, model: nn.Module, names: tuple[str, ...], outputs: tuple[str, ...], **rest: Any
    ) -> None:
        super().__init__()
        self.model, self.names, self.outputs, self.rest = model, names, outputs, rest

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the first of ``outputs``, or all of several."""
        named = dict(zip(self.names, tensors, strict=True))
        found = self.model(**named, **self.rest)
        results = tuple(found[name] for name in self.outputs)
        return results if len(results) > 1 else results[0]


class Step(nn.Module):
    """One decoding step of a causal language model with a static cache.

    The cache's tensors are inputs and results: a compiled model keeps nothing between calls.
    """

    def __init__(self, model: Any, length: int) -> None:
        super().__init__()
        self.model, self.length = model, length
        self.cache, self.argument = package("transformers").StaticCache, cache_name(model)

    def forward(self, token: torch.Tensor, place: torch.Tensor, *states: torch.Tensor) -> Any:
        """Return the scores of the token that follows ``token`` at ``place``, and the new states.

        ``states`` are the keys and values of each layer, ``(batch, heads, length, width)``.
        """
        cache = self.cache(self.model.config, self.length)
        for layer, keys, values in zip(cache.layers, states[::2], states[1::2], strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys.clone(), values.clone()
            layer.cumulative_length = place.clone()
        caches = {self.argument: cache}
        places = place[None, None]
        found = self.model(input_ids=token, use_cache=True, position_ids=places, **caches)
        return found.logits, *(s for layer in cache.layers for s in (layer.keys, layer.values))

    def states(self) -> list[torch.Tensor]:
        """Return random states."""
        config = self.model.config
        heads = config.num_attention_heads
        shape = (1, heads, self.length, config.hidden_size // heads)
        return [torch.randn(shape) for _ in range(2 * config.num_hidden_layers)]


def _image(name: str, size: int = 224) -> Callable[[], Network]:
    return lambda: (torchvision_model(name), (torch.randn(1, 3, size, size),))


def _timm(name: str) -> Callable[[], Network]:
    return lambda: (timm_model(name), (torch.randn(1, 3, 224, 224),))


def _gpt2() -> Any:
    transformers = package("transformers")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config())


def _prefill() -> Network:
    model = Named(_gpt2(), ("input_ids",), ("logits",), use_cache=False)
    return model, (torch.randint(0, 50257, (1, 64)),)


def _step() -> Network:
    step = Step(_gpt2().eval(), 128)
    return step, (torch.tensor([[11]]), torch.tensor(17), *step.states())


def _whisper() -> Network:
    transformers = package("transformers")
    model = transformers.WhisperModel(transformers.WhisperConfig()).encoder
    return Named(model, ("input_features",), ("last_hidden_state",)), (torch.randn(1, 80, 3000),)


NETWORKS: dict[str, Callable[[], Network]] = {
    "wav2vec_extractor": lambda: (Waves(), (torch.randn(1, 16000),)),
    "unet": lambda: (UNet(), (torch.randn(1, 3, 128, 128),)),
    "resnext50_32x4d": _image("resnext50_32x4d"),
    "regnety_008": _timm("regnety_008"),
    "shufflenet_v2_x1_0": _image("shufflenet_v2_x1_0"),
    "gru_classifier": lambda: (Recurrent(), (torch.randint(0, 10000, (1, 40)),)),
    "whisper_encoder": _whisper,
    "gpt2_prefill": _prefill,
    "gpt2_step": _step,
    "convnext_tiny": _timm("convnext_tiny"),
    "swin_tiny": _image("swin_t"),
}
"""By name: a function that draws the network and its inputs."""


def network(name: str) -> Network:
    """Return the network ``name`` in evaluation mode and its inputs, drawn from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, inputs = NETWORKS[name]()
        for norm in model.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.running_mean.normal_(0, 0.1)
                norm.running_var.uniform_(0.5, 1.5)
        return model.eval(), inputs
