"""Prune in your own training loop after a YAML recipe, stop half-way and resume exactly."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.nn import functional as F

import tvm_sparse as ts
from tvm_sparse.demo import digits

RECIPE = """
method: joint
sparsity: 0.7
mix: 0.7              # the paper's p: 1 is balanced, 0 is block sparsity
block: [4, 4]
vectors_per_row: 2
ignore: [features.0]
schedule: {kind: exponential, total: EPOCHS, start: 0, every: 2}
"""


class Run:
    """Model, pruner and optimizer of one training run."""

    def __init__(self, recipe: Path) -> None:
        self.model = digits.build_model(channels=(16, 32, 32, 32), hidden=(128, 64)).train()
        self.pruner = ts.prune.load_recipe(recipe).pruner(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)

    def epochs(self, numbers: range, data: digits.Digits) -> None:
        """Train for the epochs ``numbers``; the pruner steps after each."""
        images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
        for epoch in numbers:
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
            for index in order.split(64):
                self.optimizer.zero_grad()
                F.cross_entropy(self.model(images[index]), labels[index]).backward()
                self.pruner.accumulate()  # Taylor scores of the coarse mask
                self.optimizer.step()
            report = self.pruner.step()
            if report is not None:
                print(f"epoch {epoch}: {report.sparsity:.1%} zeros")

    def state(self) -> list[dict]:
        """Return what a checkpoint needs."""
        return [part.state_dict() for part in (self.model, self.pruner, self.optimizer)]

    def restore(self, states: list[dict]) -> None:
        """Continue from a checkpoint."""
        parts = (self.model, self.pruner, self.optimizer)
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs
    torch.set_num_threads(1)
    data = digits.load()
    with TemporaryDirectory() as folder:
        recipe, checkpoint = Path(folder) / "recipe.yaml", Path(folder) / "checkpoint.pt"
        recipe.write_text(RECIPE.replace("EPOCHS", str(epochs)))
        run = Run(recipe)
        run.epochs(range(epochs // 2), data)
        torch.save(run.state(), checkpoint)
        print("stopped; resuming from the checkpoint")
        run = Run(recipe)
        run.restore(torch.load(checkpoint, weights_only=True))
        run.epochs(range(epochs // 2, epochs + 1), data)
    model = run.pruner.squash_mask()
    print(f"{digits.accuracy(model, data):.2%} of the test images right")


if __name__ == "__main__":
    main()
