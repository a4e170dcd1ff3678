"""Park et al., accuracy columns: prune a published network by DEPrune and fine-tune it.

``python -m benchmarks.papers.deprune_accuracy --data imagenet --network mobilenet_v2
--weights mobilenet_v2.pth`` needs the user's data (ImageNet as ``train`` and ``val`` folders, or
the binary files of CIFAR) and, for fine-tuning, weights that were trained on it. The paper does not
state its schedule; here all is pruned at once, then SGD with a cosine learning rate. Without
``--weights`` the network is trained for ``--dense`` epochs first. Interrupted runs resume from
``--checkpoint``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

from benchmarks.harness.common import environment, save
from benchmarks.papers.training import Run, device, load
from tests.zoo import package
from tvm_sparse.demo.alpha import MeasuredAlpha
from tvm_sparse.pruning import DEPrune, OneShot, Pruner

RATIOS = {
    "mobilenet_v2": (0.779, 0.527),
    "mobilenet_v3_small": (0.821, 0.700),
    "efficientnet_b0": (0.847, 0.620),
}
"""The paper's shares of depthwise weights and of pointwise filters that are removed (Table 4)."""


def prepare(options: argparse.Namespace, classes: int, size: int) -> Run:
    """Return the run that ``options`` describe, at its start."""
    torch.manual_seed(options.seed)
    model = package("torchvision").models.get_model(options.network, num_classes=classes)
    if options.weights:
        model.load_state_dict(_weights(options.weights))
    alpha = None
    if options.variant == "DEPrune-BH":
        alpha = MeasuredAlpha(model, (torch.zeros(1, 3, size, size),))
    model.to(device())
    depthwise, pointwise = RATIOS[options.network]
    method = DEPrune(
        depthwise if options.depthwise is None else options.depthwise,
        pointwise if options.pointwise is None else options.pointwise,
        options.variant,
        alpha,
    )
    optimizer = torch.optim.SGD(model.parameters(), options.lr, 0.9, weight_decay=4e-5)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
    return Run(model, Pruner(model, method, schedule=OneShot(options.dense)), optimizer, rate)


def _weights(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, weights_only=True, map_location="cpu")


def main(values: list[str] | None = None) -> dict[str, object]:
    """Prune and fine-tune as the options say; write and return the result."""
    options = arguments(values)
    data = load(options.data, options.batch)
    run = prepare(options, data.classes, data.size)
    before = run.accuracy(data.test())
    run.fit(data, options.epochs, options.checkpoint)
    settings = {k: v for k, v in vars(options).items() if k not in ("data", "checkpoint")}
    content = {
        "environment": environment(torch.get_num_threads()),
        **{k: str(v) if isinstance(v, Path) else v for k, v in settings.items()},
        "accuracy_before": before,
        "accuracy": run.accuracy(data.test()),
        "zeros": _zeros(run.model),
    }
    name = f"{options.network}_{options.variant}_{data.classes}_{options.seed}"
    save(f"papers/deprune_accuracy_{name}", content)
    return content


def _zeros(model: nn.Module) -> dict[str, float]:
    """Return the share of zeros in depthwise and in all other convolutions."""
    found: dict[str, list[torch.Tensor]] = {"depthwise": [], "other": []}
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            sort = "depthwise" if layer.groups == layer.in_channels > 1 else "other"
            found[sort].append((layer.weight == 0).flatten())
    return {sort: float(torch.cat(masks).double().mean()) for sort, masks in found.items()}


def arguments(values: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of ImageNet or CIFAR")
    parser.add_argument("--network", choices=RATIOS, default="mobilenet_v2")
    parser.add_argument("--weights", type=Path, help=".safetensors or .pth of trained weights")
    parser.add_argument("--variant", default="DEPrune-B", help="DEPrune, DEPrune-B or DEPrune-BH")
    parser.add_argument("--depthwise", type=float, help="share of taps; default: the paper's")
    parser.add_argument("--pointwise", type=float, help="share of filters; default: the paper's")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--dense", type=int, default=0, help="epochs before pruning")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="written after each epoch, resumed from")
    return parser.parse_args(values)


if __name__ == "__main__":
    main()
