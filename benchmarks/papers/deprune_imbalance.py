"""Park et al., Fig. 3c: how far the slowest sub-GEMM stays behind the layer's pruning ratio.

Without balanced workload tuning (BWT) one threshold holds for a whole depthwise layer, and its
groups of 32 channels lose different shares. Run with
``python -m benchmarks.papers.deprune_imbalance``.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from benchmarks.papers.output import COLORS, table, tell, write
from tests.zoo import torchvision_model
from tvm_sparse.demo import digits
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.pruning import deprune
from tvm_sparse.pruning.deprune.diagonal import imbalance, kept_vectors

NAME = "deprune_imbalance"
TARGET = 0.6
PAPER_LOWEST = 0.504
INITIAL, TRAINED = "MobileNet-V2, initial weights", "separable network, trained on digits"


def layers(model: nn.Module, variant: str) -> list[dict[str, Any]]:
    """Prune the depthwise layers of a copy of ``model`` and return one row each."""
    pruned = copy.deepcopy(model)
    masks = deprune(pruned, TARGET, 0, variant=variant).masks
    rows = []
    for key, tensor in masks.items():
        mask = tensor.numpy()
        lost = imbalance(mask)
        rows.append(
            {
                "layer": key.removesuffix(".weight"),
                "channels": mask.shape[0],
                "sparsity": 1 - float(mask.mean()),
                "imbalance": lost,
                "lowest": 1 - float(mask.mean()) - lost,
                "kept_vectors": kept_vectors(mask),
            }
        )
    return rows


def networks() -> dict[str, nn.Module]:
    """Return the networks: one of the paper's with initial weights, one that is trained here."""
    data = digits.load()
    trained = digits.train(build_separable(), data, 15)
    tell(f"trained to {digits.accuracy(trained, data):.2%}")
    return {INITIAL: torchvision_model("mobilenet_v2"), TRAINED: trained}


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw the lowest share of each layer for both networks and variants."""
    for axes, (name, found) in zip(figure.subplots(1, 2), content["networks"].items(), strict=True):
        for (variant, rows), color in zip(found.items(), COLORS, strict=False):
            lowest = [100 * row["lowest"] for row in rows]
            axes.plot(range(1, len(rows) + 1), lowest, "-o", color=color, label=variant, ms=3)
        axes.axhline(100 * TARGET, color="black", linewidth=0.5)
        axes.set(title=name, xlabel="depthwise layer", ylabel="lowest sub-GEMM, % pruned")
        axes.legend()


def finding(content: dict[str, Any]) -> str:
    """Say how far the slowest sub-GEMM stays behind."""
    lowest = {
        name: min(row["lowest"] for row in found["DEPrune"])
        for name, found in content["networks"].items()
    }
    parts = "; ".join(f"{share:.1%} ({name})" for name, share in lowest.items())
    return f"Target {TARGET:.0%}, lowest sub-GEMM: {PAPER_LOWEST:.1%} in the paper; here {parts}."


def markdown(content: dict[str, Any]) -> str:
    """Return the page with a table a network."""
    parts = [
        "# DEPrune: imbalance between sub-GEMMs (Fig. 3c)",
        f"Depthwise layers pruned to {TARGET:.0%}; the slowest sub-GEMM is the one that lost "
        f"least. The paper reports {PAPER_LOWEST:.1%} as the lowest on MobileNet-V2 trained on "
        "ImageNet. Those weights are not part of this repository: the first table has initial "
        "ones, whose imbalance is chance alone (the more groups, the lower the lowest).",
    ]
    for name, found in content["networks"].items():
        lowest = min(row["lowest"] for row in found["DEPrune"])
        rows = [
            [a["layer"], a["channels"], f"{100 * a['lowest']:.1f}", f"{100 * b['lowest']:.1f}"]
            for a, b in zip(found["DEPrune"], found["DEPrune-B"], strict=True)
        ]
        parts += [
            f"## {name}: lowest {lowest:.1%}",
            table(["layer", "channels", "DCP: lowest %", "with BWT: lowest %"], rows),
        ]
    return "\n\n".join([*parts, "![Lowest share of every layer](deprune_imbalance.png)"])


def main() -> None:
    """Run and write the results."""
    torch.set_num_threads(1)
    found = {
        name: {variant: layers(model, variant) for variant in ("DEPrune", "DEPrune-B")}
        for name, model in networks().items()
    }
    content = {"target": TARGET, "paper_lowest": PAPER_LOWEST, "networks": found}
    write(NAME, content, markdown(content), lambda f: draw(content, f), (11, 4))


if __name__ == "__main__":
    main()
