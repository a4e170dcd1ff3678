"""VGG-16, ResNet-164 and DenseNet-40 in the form that papers use for CIFAR."""

from __future__ import annotations

import torch
from torch import nn

VGG_16 = (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M")


def vgg16(classes: int = 100) -> nn.Sequential:
    """Return VGG-16 with batch norm and one linear layer, for 32x32 images."""
    layers, channels = nn.Sequential(), 3
    for step in VGG_16:
        if isinstance(step, int):
            layers.append(nn.Conv2d(channels, step, 3, padding=1, bias=False))
            layers.extend([nn.BatchNorm2d(step), nn.ReLU()])
            channels = step
        else:
            layers.append(nn.MaxPool2d(2))
    return _initialised(layers.extend([nn.Flatten(), nn.Linear(channels, classes)]))


class Bottleneck(nn.Module):
    """Pre-activation bottleneck: 1x1, 3x3, 1x1 to four times the width, plus the input."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_pre(before, width, 1), *_pre(width, width, 3, stride), *_pre(width, 4 * width, 1)
        )
        same = before == 4 * width and stride == 1
        self.shortcut = (
            nn.Identity() if same else nn.Conv2d(before, 4 * width, 1, stride, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, before, h, w)`` to ``(n, 4 * width, h / stride, w / stride)``."""
        return self.body(x) + self.shortcut(x)


def resnet164(classes: int = 100) -> nn.Sequential:
    """Return the pre-activation ResNet of 164 layers: three stages of 18 bottlenecks."""
    layers, channels = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False)), 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for number in range(18):
            layers.append(Bottleneck(channels, width, stride if number == 0 else 1))
            channels = 4 * width
    return _initialised(layers.extend(_head(channels, classes)))


class DenseLayer(nn.Module):
    """Batch norm, ReLU and a 3x3 convolution, whose output joins the input."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_pre(before, growth, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, before, h, w)`` to ``(n, before + growth, h, w)``."""
        return torch.cat([x, self.body(x)], 1)


def densenet40(classes: int = 100, growth: int = 12) -> nn.Sequential:
    """Return DenseNet of 40 layers: three blocks of 12, no bottleneck, no compression."""
    layers, channels = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False)), 16
    for block in range(3):
        if block:
            layers.extend([*_pre(channels, channels, 1), nn.AvgPool2d(2)])
        for _ in range(12):
            layers.append(DenseLayer(channels, growth))
            channels += growth
    return _initialised(layers.extend(_head(channels, classes)))


NETWORKS = {"vgg16": vgg16, "resnet164": resnet164, "densenet40": densenet40}


def _pre(before: int, after: int, size: int, stride: int = 1) -> list[nn.Module]:
    """Return batch norm, ReLU and convolution, in this order."""
    conv = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
    return [nn.BatchNorm2d(before), nn.ReLU(), conv]


def _head(channels: int, classes: int) -> list[nn.Module]:
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return [nn.BatchNorm2d(channels), nn.ReLU(), *pool, nn.Linear(channels, classes)]


def _initialised(model: nn.Sequential) -> nn.Sequential:
    """Draw the convolutions after He et al. (2015), as the joint-sparsity paper does."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    return model
