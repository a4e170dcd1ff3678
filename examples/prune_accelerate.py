"""Prune under accelerate: mixed precision, accumulated gradients, several processes, resuming."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from accelerate import Accelerator
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import tvm_sparse as ts
from tvm_sparse.demo import digits


class Run:
    """Model, pruner and optimizer of one training run."""

    def __init__(self, data: digits.Digits, epochs: int) -> None:
        self.accelerator = Accelerator(gradient_accumulation_steps=2)
        model = digits.build_model(channels=(16, 32, 32, 32), hidden=(128, 64)).train()
        schedule = ts.prune.Exponential(epochs, start=2, every=2)
        method = ts.prune.JointPruning(0.7, mix=0.7)
        # The pruner gets the module itself, which `prepare` wraps.
        self.pruner = ts.prune.Pruner(model, method, schedule=schedule, ignore=["features.0"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
        images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
        loader = DataLoader(TensorDataset(images, labels), 32, shuffle=True)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)
        self.accelerator.register_for_checkpointing(self.pruner)

    def epochs(self, numbers: range) -> None:
        """Train for the epochs ``numbers``; the pruner steps before each."""
        for epoch in numbers:
            report = self.pruner.step()
            if report is not None:
                self.accelerator.print(f"epoch {epoch}: {report.sparsity:.1%} zeros")
            for images, labels in self.loader:
                with self.accelerator.accumulate(self.model):
                    loss = F.cross_entropy(self.model(images), labels)
                    self.accelerator.backward(loss)
                    if self.accelerator.sync_gradients:
                        self.accelerator.unscale_gradients()
                        self.pruner.accumulate()  # Taylor scores of whole batches
                    self.optimizer.step()
                    self.optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs
    torch.set_num_threads(1)
    data = digits.load()
    with TemporaryDirectory() as folder:
        run = Run(data, epochs)
        run.epochs(range(epochs // 2))
        run.accelerator.save_state(Path(folder))
        run.accelerator.print("stopped; resuming from the checkpoint")
        run = Run(data, epochs)
        run.accelerator.load_state(folder)
        run.epochs(range(epochs // 2, epochs + 1))
    model = run.pruner.squash_mask().cpu()
    run.accelerator.print(f"{digits.accuracy(model, data):.2%} of the test images right")


if __name__ == "__main__":
    main()
