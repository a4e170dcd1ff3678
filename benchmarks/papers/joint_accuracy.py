"""Guo et al., accuracy columns: train, prune and fine-tune on CIFAR, which the user has to have.

``python -m benchmarks.papers.joint_accuracy --data cifar-100-binary --network vgg16`` follows the
paper: SGD with Nesterov momentum 0.9, learning rate 0.1, batches of 64, 160 epochs of which the
first 20 are dense, pruning every 20. The paper does not state weight decay and decay of the
learning rate; here 5e-4, and a tenth after 50 % and 75 % of the epochs. Interrupted runs resume
from ``--checkpoint``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.common import environment, save
from benchmarks.papers.output import tell
from tvm_sparse.demo.cifar import augmented, load_cifar
from tvm_sparse.demo.cifar_networks import NETWORKS
from tvm_sparse.demo.training import Split
from tvm_sparse.pruning import Exponential, JointPruning, Pruner


class Run:
    """One training run, with everything that a checkpoint holds."""

    def __init__(self, options: argparse.Namespace, classes: int) -> None:
        torch.manual_seed(options.seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = NETWORKS[options.network](classes).to(self.device)
        method = JointPruning(options.target, options.mix, (options.block, options.block))
        schedule = Exponential(options.epochs, options.dense, options.every)
        self.pruner = Pruner(self.model, method, schedule=schedule)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
        drops = [options.epochs // 2, options.epochs * 3 // 4]
        self.rate = torch.optim.lr_scheduler.MultiStepLR(self.optimizer, drops)
        self.epoch = 0

    def train_epoch(self, data: Split) -> None:
        """Train for one epoch; the pruner steps before it, as Eq. 4 and 5 count."""
        self.model.train()
        order = torch.Generator().manual_seed(self.epoch)
        images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
        for index in torch.randperm(len(images), generator=order).split(64):
            x, y = augmented(images[index], order).to(self.device), labels[index].to(self.device)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.pruner.accumulate()
            self.optimizer.step()
        self.rate.step()
        self.epoch += 1

    def accuracy(self, data: Split) -> float:
        """Return the share of test images that are classified rightly."""
        self.model.eval()
        right = 0
        with torch.no_grad():
            for start in range(0, len(data.test_images), 256):
                x = torch.from_numpy(data.test_images[start : start + 256]).to(self.device)
                labels = torch.from_numpy(data.test_labels[start : start + 256])
                right += int((self.model(x).argmax(1).cpu() == labels).sum())
        return right / len(data.test_labels)

    def parts(self) -> dict[str, nn.Module | Pruner | torch.optim.Optimizer]:
        """Return what has a ``state_dict``."""
        return {
            "model": self.model,
            "pruner": self.pruner,
            "optimizer": self.optimizer,
            "rate": self.rate,
        }

    def save(self, path: Path) -> None:
        """Write a checkpoint, so that a kill in between leaves the old one."""
        states = {name: part.state_dict() for name, part in self.parts().items()}
        torch.save({"epoch": self.epoch, **states}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        state = torch.load(path, weights_only=True, map_location=self.device)
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.epoch = state["epoch"]


def arguments(values: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the .bin files")
    parser.add_argument("--network", choices=NETWORKS, default="vgg16")
    parser.add_argument("--target", type=float, default=0.7, help="s_t")
    parser.add_argument("--mix", type=float, default=0.7, help="p")
    parser.add_argument("--block", type=int, default=4, help="R = S")
    parser.add_argument("--epochs", type=int, default=160)
    parser.add_argument("--dense", type=int, default=20, help="dense epochs at first")
    parser.add_argument("--every", type=int, default=20, help="epochs between two prunings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="written after each epoch, resumed from")
    return parser.parse_args(values)


def main(values: list[str] | None = None) -> dict[str, object]:
    """Train as the options say; write and return the result."""
    options = arguments(values)
    data = load_cifar(options.data)
    run = Run(options, int(data.train_labels.max()) + 1)
    if options.checkpoint and options.checkpoint.exists():
        run.load(options.checkpoint)
        tell(f"resuming at epoch {run.epoch}")
    while run.epoch < options.epochs:
        run.pruner.step()
        run.train_epoch(data)
        tell(f"epoch {run.epoch}: {run.accuracy(data):.2%}")
        if options.checkpoint:
            run.save(options.checkpoint)
    report = run.pruner.step() or run.pruner.report
    settings = {k: v for k, v in vars(options).items() if k not in ("data", "checkpoint")}
    content = {
        "environment": environment(torch.get_num_threads()),
        **settings,
        "accuracy": run.accuracy(data),
        "sparsity": report.sparsity,
    }
    name = f"{options.network}_{options.target}_{options.mix}_{options.block}_{options.seed}"
    save(f"papers/joint_accuracy_{name}", content)
    return content


if __name__ == "__main__":
    main()
