"""Prune a network trained on real digits to balanced sparsity, compile it, check the outputs."""

from __future__ import annotations

import argparse

import numpy as np
import torch

import tvm_sparse as ts
from tvm_sparse.demo import digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10, help="epochs of training")
    parser.add_argument("--tuning", type=int, default=6, help="epochs of fine-tuning a step")
    options = parser.parse_args()

    data = digits.load()
    model = digits.train(digits.build_model(), data, options.epochs)
    print(f"dense: {digits.accuracy(model, data):.2%} of the test images right")

    # 75 %, then 90 % zeros; banks of 16 input channels of one tap, as the kernels like them.
    for step in digits.prune_iteratively(model, data, (0.75, 0.9), epochs=options.tuning):
        print(f"\n{step.report}")
        print(f"accuracy {step.accuracy_untuned:.2%}, after fine-tuning {step.accuracy:.2%}")

    # The compiler sees plain weights and finds the pattern from their zeros.
    image = torch.from_numpy(data.test_images[:1])
    library = ts.compile(model, (image,), target="cpu")
    with torch.no_grad():
        difference = np.abs(np.asarray(library(image)) - model(image).numpy()).max()
    print(f"\nlargest difference between the compiled library and PyTorch: {difference:.1e}")


if __name__ == "__main__":
    main()
