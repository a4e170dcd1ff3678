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

from benchmarks.harness.common import environment, save
from benchmarks.papers.cifar_networks import NETWORKS
from benchmarks.papers.training import Run, device, load
from tvm_sparse.pruning import Exponential, JointPruning, Pruner

BATCH = 64


def prepare(options: argparse.Namespace, classes: int) -> Run:
    """Return the run that ``options`` describe, at its start."""
    torch.manual_seed(options.seed)
    model = NETWORKS[options.network](classes).to(device())
    method = JointPruning(options.target, options.mix, (options.block, options.block))
    schedule = Exponential(options.epochs, options.dense, options.every)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    drops = [options.epochs // 2, options.epochs * 3 // 4]
    rate = torch.optim.lr_scheduler.MultiStepLR(optimizer, drops)
    return Run(model, Pruner(model, method, schedule=schedule), optimizer, rate)


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
    data = load(options.data, BATCH)
    run = prepare(options, data.classes)
    run.fit(data, options.epochs, options.checkpoint)
    report = run.pruner.step() or run.pruner.report
    settings = {k: v for k, v in vars(options).items() if k not in ("data", "checkpoint")}
    content = {
        "environment": environment(torch.get_num_threads()),
        **settings,
        "accuracy": run.accuracy(data.test()),
        "sparsity": report.sparsity,
    }
    name = f"{options.network}_{options.target}_{options.mix}_{options.block}_{options.seed}"
    save(f"papers/joint_accuracy_{name}", content)
    return content


if __name__ == "__main__":
    main()
