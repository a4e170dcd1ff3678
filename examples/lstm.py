"""Train an LSTM that reads digits row by row, prune it while it trains on, compile it."""

from __future__ import annotations

import argparse
import copy

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.comparison.latency import race
from tvm_sparse.demo import digits


class Reader(nn.Module):
    """Reads an image of 8 x 8 as eight steps of eight values; the last state names the digit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.widen, self.lstm = nn.Linear(8, width), nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(torch.relu(self.widen(images.squeeze(1))))
        return self.head(states[:, -1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256, help="width of the LSTM")
    parser.add_argument("--epochs", type=int, default=8, help="epochs of training")
    parser.add_argument("--tuning", type=int, default=4, help="epochs after each step of pruning")
    options = parser.parse_args()

    data = digits.load()
    torch.manual_seed(0)
    dense = digits.train(Reader(options.width), data, options.epochs, lr=2e-3)
    print(f"dense: {digits.accuracy(dense, data):.2%} of the test images right")

    # The gates of all four kinds are rows of two matrices: both get banks of 16 columns.
    model = copy.deepcopy(dense)
    schedule = ts.prune.Levels([0.5, 0.75])
    method = ts.prune.BalancedPruning(0.75)
    pruner = ts.prune.Pruner(model, method, schedule=schedule, include=["lstm"])
    for _ in range(2):
        pruner.step()
        digits.train(model, data, options.tuning, lr=2e-3)
        print(f"{pruner.report.sparsity:.0%} zeros: {digits.accuracy(model, data):.2%} right")
    pruner.squash_mask()

    image = torch.from_numpy(data.test_images[:1])
    library = ts.compile(model.eval(), (image,))
    for decision in library.decisions:
        print(f"{decision.layer}: {decision.chosen}; {decision.reason}")
    with torch.inference_mode():
        difference = np.abs(np.asarray(library(image)) - model(image).numpy()).max()
        times = race({"PyTorch": lambda: dense(image), "compiled": lambda: library(image)})
    print(f"PyTorch {times['PyTorch'].median_us:.0f} us, ours {times['compiled'].median_us:.0f} us")
    print(f"largest difference between the compiled library and PyTorch: {difference:.1e}")


if __name__ == "__main__":
    main()
