"""Handwritten digits (UCI, inside scikit-learn) and a small VGG-style network for them."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from tvm_sparse.demo.iterative import StepResult, prune_iteratively
from tvm_sparse.demo.training import Split, accuracy, predict, train

__all__ = [
    "Digits",
    "StepResult",
    "accuracy",
    "build_model",
    "load",
    "predict",
    "prune_iteratively",
    "train",
]

CHANNELS = (32, 64, 128, 128)
HIDDEN = (1024, 512)
CLASSES = 10


class Digits(Split):
    """1797 real digits of 8x8 pixels in [0, 1], float32 ``(n, 1, 8, 8)``, split by class."""


def load(test_share: float = 0.2, seed: int = 0) -> Digits:
    """Return the digits, ``test_share`` of each class held out. Nothing is downloaded."""
    pixels, labels = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    parts = train_test_split(
        images, labels.astype(np.int64), test_size=test_share, stratify=labels, random_state=seed
    )
    train_images, test_images, train_labels, test_labels = parts
    return Digits(train_images, train_labels, test_images, test_labels)


def build_model(
    channels: tuple[int, int, int, int] = CHANNELS,
    hidden: tuple[int, int] = HIDDEN,
    seed: int = 0,
) -> nn.Sequential:
    """Return an untrained VGG-style network ``(n, 1, 8, 8) -> (n, 10)``.

    Four 3x3 convolutions with batch norm and ReLU, pooled after the second and the fourth, then
    three linear layers. The weights depend on ``seed`` alone; torch's global generator is left
    as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        features = nn.Sequential()
        for i, (before, after) in enumerate(itertools.pairwise((1, *channels))):
            features.append(nn.Conv2d(before, after, 3, padding=1, bias=False))
            features.append(nn.BatchNorm2d(after))
            features.append(nn.ReLU())
            if i % 2 == 1:
                features.append(nn.MaxPool2d(2))
        sizes = (channels[-1] * 2 * 2, *hidden)
        head = nn.Sequential(nn.Flatten())
        for before, after in itertools.pairwise(sizes):
            head.extend([nn.Linear(before, after), nn.ReLU()])
        head.append(nn.Linear(sizes[-1], CLASSES))
    model = nn.Sequential()
    model.add_module("features", features)
    model.add_module("head", head)
    return model.eval()
