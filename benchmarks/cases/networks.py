"""The networks of the whole-model benchmark, with random weights and projected patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.zoo import torchvision_model
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.lowering import lower, raise_
from tvm_sparse.pruning import deprune


class Encoder(nn.Module):
    """BERT-base's encoder: 12 post-norm layers of width 768 with 12 heads; MiniLM has 6 of 384."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, tokens, width)`` to the same shape."""
        for layer in self.layers:
            x = layer(x)
        return x


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        split = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (f(x).view(split).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = torch.softmax(q @ k.transpose(2, 3) / split[-1] ** 0.5, -1)
        joined = (scores @ v).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norm1(x + self.out(joined))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Recurrent(nn.Module):
    """LSTM-PTB's two layers of 1500 units (Yao et al., Table 3)."""

    def __init__(self, width: int = 1500) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, steps, width)`` to the same shape."""
        return self.lstm(x)[0]


class Bidirectional(nn.Module):
    """CTC-TIMIT's bidirectional LSTM of 1024 units over frames of 40 filter banks (Yao et al.)."""

    def __init__(self, inputs: int = 40, width: int = 1024) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, bidirectional=True, batch_first=True)
        self.phones = nn.Linear(2 * width, 62)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(batch, frames, inputs)`` to ``(batch, frames, 62)`` scores of phones."""
        return self.phones(self.lstm(x)[0])


def _image(name: str) -> Callable[[int], tuple[nn.Module, torch.Tensor]]:
    return lambda batch: (torchvision_model(name), torch.randn(batch, 3, 224, 224))


def _vision_transformer(batch: int) -> tuple[nn.Module, torch.Tensor]:
    return with_random_head(torchvision_model("vit_b_16")), torch.randn(batch, 3, 224, 224)


def with_random_head(model: Any) -> Any:
    """Return a vision transformer whose classifier is not all zero, as torchvision makes it."""
    nn.init.normal_(model.heads.head.weight, std=0.02)
    return model


NETWORKS: dict[str, Callable[[int], tuple[nn.Module, torch.Tensor]]] = {
    "resnet50": _image("resnet50"),
    "resnet18": _image("resnet18"),
    "vgg16": _image("vgg16"),
    "mobilenet_v2": _image("mobilenet_v2"),
    "efficientnet_b0": _image("efficientnet_b0"),
    "densenet121": _image("densenet121"),
    "vit_b_16": _vision_transformer,
    "bert_base": lambda batch: (Encoder(), torch.randn(batch, 128, 768)),
    "minilm": lambda batch: (Encoder(layers=6, width=384), torch.randn(batch, 64, 384)),
    "lstm_ptb": lambda batch: (Recurrent(), torch.randn(batch, 1, 1500)),
    "lstm_ptb_35": lambda batch: (Recurrent(), torch.randn(batch, 35, 1500)),
    "ctc_timit": lambda batch: (Bidirectional(), torch.randn(batch, 50, 40)),
}


def build(name: str, batch: int = 1) -> tuple[nn.Module, torch.Tensor]:
    """Return a network in eval mode and its input, the same ones each time."""
    torch.manual_seed(0)
    model, x = NETWORKS[name](batch)
    generator = torch.Generator().manual_seed(1)
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_(0, 0.1, generator=generator)
            norm.running_var.uniform_(0.5, 1.5, generator=generator)
    return model.eval(), x


def prune_balanced(model: nn.Module, keep: int, bank: int = 16) -> None:
    """Project every large weight to ``keep`` of ``bank`` in place, magnitudes rescaled.

    First convolutions and depthwise ones (fewer input channels than a bank) stay dense. A weight's
    norm stays as it was, which keeps activations of random networks in range, in fp16 too.
    """
    pattern = Balanced(bank, keep)
    for parameter in _prunable(model):
        weight = parameter.detach().numpy()
        matrix = lower(weight, "hwi")
        kept = matrix * pattern.project(np.abs(matrix))
        kept *= np.linalg.norm(matrix) / np.linalg.norm(kept)
        parameter.data = torch.from_numpy(raise_(kept.astype(np.float32), weight.shape, "hwi"))


def prune_blocks(model: nn.Module, sparsity: float, rows: int = 16, most: int = 64) -> None:
    """Zero blocks of every large weight in place, magnitudes rescaled as in :func:`prune_balanced`.

    Blocks of ``rows`` are as wide as divides the channels, ``most`` columns at most.
    """
    for parameter in _prunable(model):
        weight = parameter.detach().numpy()
        matrix = lower(weight, "hwi")
        wide = max(n for n in range(1, most + 1) if weight.shape[1] % n == 0)
        kept = matrix * Block(rows, wide).project(np.abs(matrix), sparsity)
        if not kept.any():
            continue  # a matrix of few blocks
        kept *= np.linalg.norm(matrix) / np.linalg.norm(kept)
        parameter.data = torch.from_numpy(raise_(kept.astype(np.float32), weight.shape, "hwi"))


DEPRUNE = {"mobilenet_v2": (0.78, 0.5), "efficientnet_b0": (0.85, 0.52)}
"""Shares of depthwise weights and of pointwise filters that DEPrune removes (its Tables 2, 3)."""


def prune_deprune(model: nn.Module, name: str) -> None:
    """Prune a network of depthwise separable blocks by DEPrune-BH, in place.

    The recalibration of HSR wants the measured gain of aligned groups; every layer counts the
    same here, which ranks them by their ragged tails alone.
    """
    depthwise, pointwise = DEPRUNE[name]
    pruner = deprune(model, depthwise, pointwise, variant="DEPrune-BH", alpha=lambda _layer: 1.0)
    pruner.step()
    pruner.squash_mask()


def share_columns(model: nn.Module, keep: int, share: int = 2, bank: int = 16) -> None:
    """Project large weights to ``keep`` of ``bank`` with columns common to ``share`` row blocks.

    Rows ``r`` and ``r + 16`` (and so on) of each ``16 * share`` keep the same columns, those with
    the largest sum of magnitudes: one lookup then serves ``share`` multiply-adds.
    """
    pattern = Balanced(bank, keep)
    for parameter in _prunable(model):
        weight = parameter.detach().numpy()
        matrix = lower(weight, "hwi")
        padded = np.zeros((-(-len(matrix) // (16 * share)) * 16 * share, matrix.shape[1]))
        padded[: len(matrix)] = np.abs(matrix)
        blocks = padded.reshape(-1, share, 16, matrix.shape[1])
        mask = pattern.project(blocks.sum(1).reshape(-1, matrix.shape[1]))
        wide = np.broadcast_to(mask.reshape(len(blocks), 1, 16, -1), blocks.shape)
        kept = matrix * wide.reshape(padded.shape)[: len(matrix)] * (bank / keep) ** 0.5
        parameter.data = torch.from_numpy(raise_(kept.astype(np.float32), weight.shape, "hwi"))


def _prunable(model: nn.Module) -> list[Any]:
    found = []
    for layer in model.modules():
        if isinstance(layer, nn.LSTM):
            found += [p for name, p in layer.named_parameters() if name.startswith("weight")]
        elif isinstance(layer, nn.MultiheadAttention):
            found.append(layer.in_proj_weight)
        elif isinstance(layer, nn.Linear | nn.Conv2d) and getattr(layer, "groups", 1) == 1:
            found.append(layer.weight)
    return [p for p in found if p.shape[1] >= 16]
