"""Prune a network of depthwise separable blocks by DEPrune and compare its three variants."""

from __future__ import annotations

import argparse
import copy

import torch

import tvm_sparse as ts
from tvm_sparse.demo import digits
from tvm_sparse.demo.alpha import MeasuredAlpha
from tvm_sparse.demo.separable import build_separable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12, help="epochs of training")
    parser.add_argument("--tuning", type=int, default=5, help="epochs of fine-tuning")
    parser.add_argument("--measure", action="store_true", help="also DEPrune-BH, alpha measured")
    options = parser.parse_args()

    data = digits.load()
    dense = digits.train(build_separable(), data, options.epochs)
    print(f"dense: {digits.accuracy(dense, data):.2%} of the test images right\n")

    for block in ts.prune.find_separable(dense).blocks:
        print(f"{block.expand} -> {block.depthwise} -> {block.project}")

    variants = ["DEPrune", "DEPrune-B"] + ["DEPrune-BH"] * options.measure
    for variant in variants:
        model = copy.deepcopy(dense)
        # Dropping vectors pays where a tile of 32 falls away: measured by compiling the layer.
        alpha = MeasuredAlpha(model, (torch.zeros(1, 1, 8, 8),)) if variant[-1] == "H" else None
        pruner = ts.prune.deprune(model, 0.7, 0.5, variant=variant, alpha=alpha)
        digits.train(model, data, options.tuning, lr=2e-3)
        print(f"\n{pruner.report}")
        print(f"accuracy after fine-tuning {digits.accuracy(model, data):.2%}")


if __name__ == "__main__":
    main()
