"""Networks of torchvision, timm and transformers with weights drawn from a seed (no download)."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

_UNDECLARED = ("torchvision::nms", "torchvision::qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def torchvision_model(name: str, seed: int = 0, **options: Any) -> nn.Module:
    """Return ``torchvision.models.<name>`` in eval mode with random weights of ``seed``."""
    models = package("torchvision").models
    return _seeded(lambda: models.get_model(name, **options), seed)


def timm_model(name: str, seed: int = 0, **options: Any) -> nn.Module:
    """Return ``timm.create_model(name)`` in eval mode with random weights of ``seed``."""
    timm = package("timm")
    return _seeded(lambda: timm.create_model(name, **options), seed)


def transformers_model(model: str, configuration: str, seed: int = 0, **options: Any) -> nn.Module:
    """Return a model of transformers, by its class and that of its configuration, to evaluate."""
    transformers = package("transformers")
    config = getattr(transformers, configuration)(**options)
    return _seeded(lambda: getattr(transformers, model)(config), seed)


def cache_name(model: nn.Module) -> str:
    """Return how a language model of transformers names its cache: ``cache`` since 5.24."""
    new = "cache" in inspect.signature(model.forward).parameters
    return "cache" if new else "past_key_values"


@functools.cache
def package(name: str) -> Any:
    """Import torchvision, timm or transformers; skip the calling test if it is not installed."""
    for needed in ("torchvision", name):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed (extra 'zoo')")
    _import_torchvision()
    return importlib.import_module(name)


def _import_torchvision() -> None:
    """Import torchvision next to a CPU build of torch too.

    Its compiled operators do not load there, and the import stops at describing two of them.
    Declaring these two is enough for all its networks.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        for operator in _UNDECLARED:
            torch.library.define(operator, _SCHEMA)
        importlib.import_module("torchvision")


def _seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build().eval()
        _randomise_batch_norm(model)
    return model


def _randomise_batch_norm(model: nn.Module) -> None:
    """Fresh batch norms are the identity, which would hide mistakes in folding them."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
