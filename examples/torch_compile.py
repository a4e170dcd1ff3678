"""Prune a network on real digits and run it through ``torch.compile``, backend tvm_sparse."""

from __future__ import annotations

import argparse
import copy

import torch

import tvm_sparse as ts
from tvm_sparse.comparison.latency import race
from tvm_sparse.demo import digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10, help="epochs of training")
    parser.add_argument("--tuning", type=int, default=4, help="epochs after each step of pruning")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each program")
    options = parser.parse_args()

    data = digits.load()
    dense = digits.train(digits.build_model(), data, options.epochs)
    print(f"dense: {digits.accuracy(dense, data):.2%} of the test images right")
    pruned = copy.deepcopy(dense)
    for step in digits.prune_iteratively(pruned, data, (0.75, 0.9), epochs=options.tuning):
        print(f"{step.report.sparsity:.0%} zeros: {step.accuracy:.2%} right")

    # The model is used as before. Each graph is compiled when it is called, and kept on disk.
    fast = torch.compile(pruned, backend="tvm_sparse")
    images = torch.from_numpy(data.test_images[:1])
    with torch.no_grad():
        difference = (fast(images) - pruned(images)).abs().max()
        programs = {"PyTorch": lambda: dense(images), "tvm_sparse": lambda: fast(images)}
        times = race(programs, options.rounds, calls=10)
    print(ts.partitions(fast))
    for name, taken in times.items():
        print(f"{name}: {taken.median_us:.0f} us")
    print(f"largest difference from PyTorch: {difference:.1e}")

    # Other weights are noticed: the graph is compiled again.
    with torch.no_grad():
        for weight in pruned.parameters():
            weight.mul_(1.25)
        difference = (fast(images) - pruned(images)).abs().max()
    print(f"largest difference after a change: {difference:.1e}")


if __name__ == "__main__":
    main()
