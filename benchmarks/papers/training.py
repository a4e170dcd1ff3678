"""Training runs of the papers on data that a user has: batches, epochs, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from benchmarks.papers.cifar import augmented, load_cifar
from benchmarks.papers.imagenet import load_imagenet
from benchmarks.papers.output import tell
from tvm_sparse.pruning import Pruner

TEST_BATCH = 256
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Data:
    """Batches of images ``(n, 3, height, width)`` and labels ``(n,)``.

    ``train`` is called with the number of the epoch, which alone decides order and augmentation.
    """

    train: Callable[[int], Iterable[Batch]]
    test: Callable[[], Iterable[Batch]]
    classes: int
    size: int


def load(folder: Path, batch: int) -> Data:
    """Read ImageNet if ``folder`` holds ``train``, else CIFAR-10 or CIFAR-100."""
    return _imagenet(folder, batch) if (folder / "train").is_dir() else _cifar(folder, batch)


def _cifar(folder: Path, batch: int) -> Data:
    split = load_cifar(folder)
    images, labels = torch.from_numpy(split.train_images), torch.from_numpy(split.train_labels)
    unseen = torch.from_numpy(split.test_images), torch.from_numpy(split.test_labels)

    def train(epoch: int) -> Iterator[Batch]:
        order = torch.Generator().manual_seed(epoch)
        for index in torch.randperm(len(images), generator=order).split(batch):
            yield augmented(images[index], order), labels[index]

    def test() -> Iterable[Batch]:
        return zip(*(part.split(TEST_BATCH) for part in unseen), strict=True)

    return Data(train, test, int(labels.max()) + 1, images.shape[-1])


def _imagenet(folder: Path, batch: int) -> Data:
    found = load_imagenet(folder)
    workers = len(os.sched_getaffinity(0)) - 1

    def train(epoch: int) -> Iterable[Batch]:
        found.train.set_epoch(epoch)
        order = torch.Generator().manual_seed(epoch)
        return DataLoader(
            found.train, batch, shuffle=True, num_workers=workers, generator=order, drop_last=True
        )

    def test() -> Iterable[Batch]:
        return DataLoader(found.val, TEST_BATCH, num_workers=workers)

    return Data(train, test, len(found.classes), found.val[0][0].shape[-1])


class Run:
    """One training run, with everything that a checkpoint holds.

    ``pruner`` steps before each epoch, as Eq. 4 and 5 of Guo et al. count.
    """

    def __init__(
        self,
        model: nn.Module,
        pruner: Pruner,
        optimizer: torch.optim.Optimizer,
        rate: torch.optim.lr_scheduler.LRScheduler,
    ) -> None:
        self.model, self.pruner, self.optimizer, self.rate = model, pruner, optimizer, rate
        self.device = next(model.parameters()).device
        self.epoch = 0

    def fit(self, data: Data, epochs: int, checkpoint: Path | None = None) -> None:
        """Train up to ``epochs``; a checkpoint is resumed from, and written after each epoch."""
        if checkpoint and checkpoint.exists():
            self.load(checkpoint)
            tell(f"resuming at epoch {self.epoch}")
        while self.epoch < epochs:
            self.pruner.step()
            self.train_epoch(data.train(self.epoch))
            tell(f"epoch {self.epoch}: {self.accuracy(data.test()):.2%}")
            if checkpoint:
                self.save(checkpoint)

    def train_epoch(self, batches: Iterable[Batch]) -> None:
        """Train once on ``batches``."""
        self.model.train()
        for x, y in batches:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x.to(self.device)), y.to(self.device)).backward()
            self.pruner.accumulate()
            self.optimizer.step()
        self.rate.step()
        self.epoch += 1

    def accuracy(self, batches: Iterable[Batch]) -> float:
        """Return the share of images that are classified rightly."""
        self.model.eval()
        right = seen = 0
        with torch.no_grad():
            for x, y in batches:
                right += int((self.model(x.to(self.device)).argmax(1).cpu() == y).sum())
                seen += len(y)
        return right / seen

    def save(self, path: Path) -> None:
        """Write a checkpoint, so that a kill in between leaves the old one."""
        states = {name: part.state_dict() for name, part in self._parts().items()}
        torch.save({"epoch": self.epoch, **states}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        state = torch.load(path, weights_only=True, map_location=self.device)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.epoch = state["epoch"]

    def _parts(self) -> dict[str, nn.Module | Pruner | torch.optim.Optimizer]:
        return {
            "model": self.model,
            "pruner": self.pruner,
            "optimizer": self.optimizer,
            "rate": self.rate,
        }


def device() -> str:
    """Return where to train."""
    return "cuda" if torch.cuda.is_available() else "cpu"
