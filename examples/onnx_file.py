"""An ONNX file: pruned and trained without labels, put into bytes, compiled, still an ONNX file."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.demo import digits


def network() -> nn.Sequential:
    """Return what reads digits; its file is all that the rest of this example looks at."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8, help="epochs of training")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of distillation")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the files go")
    options = parser.parse_args()
    data = digits.load()
    torch.manual_seed(0)
    model = digits.train(network(), data, options.epochs, lr=2e-3)
    names = ("dense", "pruned", "trained", "bytes")
    files = {name: options.folder / f"{name}.onnx" for name in names}
    batch = {"dynamic_shapes": [{0: torch.export.Dim("n")}], "input_names": ["images"]}
    torch.onnx.export(model, (torch.from_numpy(data.train_images[:2]),), files["dense"], **batch)

    # From here on there is only a file, and images without labels.
    images = data.train_images
    inputs = [images[i : i + 32] for i in range(0, len(images), 32)]
    method = ts.prune.BalancedPruning(0.9375)
    ts.prune.onnx(files["dense"], method, calibration=inputs[:8], output=files["pruned"])
    _tell("pruned", files["pruned"], data)
    student, teacher = ts.OnnxModule(files["pruned"]), ts.OnnxModule(files["dense"])
    batches = [torch.from_numpy(x) for x in inputs]
    ts.prune.distil(student, teacher, batches, seconds=options.seconds)
    student.save(files["trained"])
    _tell("trained", files["trained"], data)
    ts.quantize_onnx(files["trained"], inputs[:8], output=files["bytes"])
    _tell("in bytes", files["bytes"], data)


def _tell(what: str, file: Path, data: digits.Digits) -> None:
    """Compile ``file`` and print how many test images it reads right."""
    library = ts.compile(file, config=ts.Config(measure=False))
    right = np.asarray(library(data.test_images)).argmax(1) == data.test_labels
    zeros = ts.inspect(file).sparsity
    print(f"{what}: {right.mean():.2%} of the test images right, {zeros:.0%} zeros")


if __name__ == "__main__":
    main()
