"""A stand-in for Lightning: its hooks in its order, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn


class Callback:
    """What the callbacks of a trainer have to be."""


class Trainer:
    """Trains on one process of a CPU; ``module`` logs, and returns the loss of a batch."""

    strategy: Any = object()

    def __init__(self, max_epochs: int, callbacks: Iterable[Any]) -> None:
        self.current_epoch, self.max_epochs, self.callbacks = 0, max_epochs, list(callbacks)
        assert all(isinstance(one, Callback) for one in self.callbacks)

    def fit(self, module: nn.Module, loader: Iterable[Any], first: int = 0) -> None:
        for callback in self.callbacks:
            callback.setup(self, module, "fit")
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for self.current_epoch in range(first, self.max_epochs):
            for callback in self.callbacks:
                callback.on_train_epoch_start(self, module)
            for index, batch in enumerate(loader):
                optimizer.zero_grad()
                module.training_step(batch, index).backward()
                for callback in self.callbacks:
                    callback.on_before_optimizer_step(self, module, optimizer)
                optimizer.step()


class Module(nn.Sequential):
    """Two layers of 64 inputs that keep what is logged."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 4))
        self.logged: list[tuple[str, float]] = []

    def training_step(self, batch: Sequence[torch.Tensor], index: int) -> torch.Tensor:
        return self(batch[0]).square().sum()

    def log(self, name: str, value: float) -> None:
        self.logged.append((name, value))


def packages() -> dict[str, ModuleType]:
    """Return what ``sys.modules`` has of the package."""
    package, part = ModuleType("lightning"), ModuleType("lightning.pytorch")
    package.pytorch, part.Callback, part.Trainer = part, Callback, Trainer
    return {"lightning": package, "lightning.pytorch": part}
