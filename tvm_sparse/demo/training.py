"""Train and evaluate small image classifiers on arrays that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Progress = Callable[[str, int, int], None]
"""Called as ``progress(what, done, total)`` after every unit of work."""


@dataclass(frozen=True)
class Split:
    """A data set: float32 images ``(n, channels, height, width)`` and int64 labels ``(n,)``."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def train(
    model: nn.Module,
    data: Split,
    epochs: int = 10,
    *,
    lr: float = 4e-3,
    batch: int = 64,
    seed: int = 0,
    progress: Progress | None = None,
    what: str = "training",
    after_backward: Callable[[], object] | None = None,
    threads: int = 1,
) -> nn.Module:
    """Train ``model`` in place with AdamW under a one-cycle learning rate and return it.

    Masks attached by :class:`tvm_sparse.pruning.Pruner` stay in force, so the same loop fine-tunes
    a pruned model. The order of the batches depends on ``seed`` alone.

    Parameters
    ----------
    model
        Maps ``(n, channels, height, width)`` float32 to logits ``(n, classes)``; left in eval mode.
    data
        Only its training part is used.
    epochs, lr, batch
        Passes over the data, peak learning rate, images a step.
    progress, what
        Told after each epoch, as ``progress(what, done, epochs)``.
    after_backward
        Called when the gradients of a batch are there, before the optimizer's step (Taylor scores
        are gathered here).
    threads
        Threads of torch meanwhile. Small layers gain little from a second one, and lose a factor
        of ten where the cores are busy; with one the result is the same on any number of cores.
    """
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    steps = -(-len(images) // batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=epochs * steps)
    order = torch.Generator().manual_seed(seed)
    model.train()
    with _threads(threads):
        for epoch in range(epochs):
            for index in torch.randperm(len(images), generator=order).split(batch):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
                if after_backward is not None:
                    after_backward()
                optimizer.step()
                schedule.step()
            if progress is not None:
                progress(what, epoch + 1, epochs)
    return model.eval()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def predict(
    model: nn.Module | Callable[..., Any], images: Images, batch: int | None = None
) -> Images:
    """Return the logits ``(n, classes)`` of ``model``, a module or anything called with an array.

    With ``batch`` every call gets exactly that many images (the last call is filled up by
    repeating the last image), as a library compiled for one batch size needs.
    """
    size = batch or len(images)
    outputs = []
    for start in range(0, len(images), size):
        part = images[start : start + size]
        filled = np.concatenate([part, np.repeat(part[-1:], size - len(part), axis=0)])
        outputs.append(_call(model, filled)[: len(part)])
    return np.concatenate(outputs)


def accuracy(model: nn.Module | Callable[..., Any], data: Split, batch: int | None = None) -> float:
    """Return the fraction of test images that ``model`` classifies rightly (:func:`predict`)."""
    labels = predict(model, data.test_images, batch).argmax(axis=1)
    return float((labels == data.test_labels).mean())


def _call(model: nn.Module | Callable[..., Any], images: Images) -> Images:
    if not isinstance(model, nn.Module):
        output = model(images)
        return output.numpy() if hasattr(output, "numpy") else np.asarray(output)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(images)).numpy()
    model.train(was_training)
    return logits
