"""Accuracy of every pruning method at 50, 70, 80 and 90 % on real handwritten digits.

Each network is trained once a seed, then pruned to the four levels one after the other with
fine-tuning after each. Run with ``python -m benchmarks.papers.digits_accuracy``; what the JSON
holds already is not run again.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.papers.output import COLORS, earlier, table, tell, write
from tvm_sparse.demo import digits
from tvm_sparse.demo.separable import build_separable
from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import (
    BalancedPruning,
    DEPrune,
    FilterPruning,
    JointPruning,
    Method,
    PatternPruning,
    UnstructuredPruning,
    prune,
)
from tvm_sparse.pruning.functions import n_m_method

NAME = "digits_accuracy"
LEVELS = (0.5, 0.7, 0.8, 0.9)
SEEDS = (0, 1, 2)
EPOCHS, TUNING = 15, 4
VGG, SEPARABLE = "VGG-style", "separable"
UNPRUNED = {VGG: ("features.0",), SEPARABLE: ("stem.*",)}
Methods = Mapping[str, Callable[[float], Method]]


def channel_share(sparsity: float) -> float:
    """Return the share of channels whose removal zeroes ``sparsity`` of a weight's entries."""
    return 1 - (1 - sparsity) ** 0.5


VGG_METHODS: Methods = {
    "unstructured": UnstructuredPruning,
    "unstructured, global": lambda s: UnstructuredPruning(s, "global"),
    "balanced, bank 16": lambda s: BalancedPruning(s, 16, rounding="reach"),
    "balanced, bank 64": lambda s: BalancedPruning(s, 64, rounding="reach"),
    "N:M, M = 10": lambda s: n_m_method(round(10 * (1 - s)), 10),
    "block 4x4": lambda s: PatternPruning(Block(4, 4), s),
    "block 4x4, Taylor": lambda s: PatternPruning(Block(4, 4), s, criterion="taylor"),
    "joint, p = 0.7": lambda s: JointPruning(s, 0.7),
    "filters, l1": lambda s: FilterPruning(channel_share(s), "l1"),
    "filters, l2": lambda s: FilterPruning(channel_share(s)),
    "filters, FPGM": lambda s: FilterPruning(channel_share(s), "fpgm"),
    "channels, l2": lambda s: FilterPruning(channel_share(s), rank="inputs"),
}
SEPARABLE_METHODS: Methods = {
    "DEPrune (DCP), DW only": lambda s: DEPrune(s, variant="DEPrune"),
    "DEPrune-B, DW only": DEPrune,
    "DEPrune-BH, DW only": lambda s: DEPrune(s, variant="DEPrune-BH", alpha=lambda _: 1.0),
    "DEPrune-B, DW and PW/2": lambda s: DEPrune(s, s / 2),
    "channels of DW": FilterPruning,
}

INCLUDE = {"channels of DW": ("blocks.*.expand.0", "blocks.*.depthwise.0")}
"""The makers of the channels that a depthwise layer sees; everything is included elsewhere."""


def runs(
    network: str,
    build: Callable[[int], nn.Module],
    methods: Methods,
    done: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield one row a seed, method and level, leaving out methods that ``done`` has rows of."""
    finished = {row["method"] for row in done if row["network"] == network}
    methods = {name: method for name, method in methods.items() if name not in finished}
    if not methods:
        return
    data = digits.load(test_share=0.5)
    for seed in SEEDS:
        trained = digits.train(build(seed), data, EPOCHS, seed=seed)
        dense = digits.accuracy(trained, data)
        tell(f"{network}, seed {seed}: {dense:.2%}")
        for name, method in methods.items():
            model = copy.deepcopy(trained)
            for number, level in enumerate(LEVELS):
                report = prune(
                    model,
                    method(level),
                    losses=losses(model, data, seed),
                    include=INCLUDE.get(name, ("*",)),
                    ignore=UNPRUNED[network],
                ).report
                digits.train(model, data, TUNING, lr=2e-3, seed=seed + number)
                accuracy = digits.accuracy(model, data)
                tell(f"  {name} {level:.0%}: {accuracy:.2%}")
                row = {"network": network, "seed": seed, "method": name, "level": level}
                yield {**row, "sparsity": report.sparsity, "accuracy": accuracy, "dense": dense}


def losses(model: nn.Module, data: digits.Digits, seed: int) -> Iterator[torch.Tensor]:
    """Yield the losses of some training batches, for Taylor scores."""
    order = torch.randperm(len(data.train_images), generator=torch.Generator().manual_seed(seed))
    for index in order.split(64)[:8]:
        images = torch.from_numpy(data.train_images)[index]
        yield F.cross_entropy(model(images), torch.from_numpy(data.train_labels)[index])


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean, lowest and highest accuracy over the seeds, a method and level."""
    found = []
    for key in dict.fromkeys((r["network"], r["method"], r["level"]) for r in rows):
        same = [r for r in rows if (r["network"], r["method"], r["level"]) == key]
        accuracy = [r["accuracy"] for r in same]
        found.append(
            {
                "network": key[0],
                "method": key[1],
                "level": key[2],
                "sparsity": statistics.mean(r["sparsity"] for r in same),
                "mean": statistics.mean(accuracy),
                "lowest": min(accuracy),
                "highest": max(accuracy),
                "dense": statistics.mean(r["dense"] for r in same),
            }
        )
    return found


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw accuracy over sparsity, one panel a network."""
    rows = content["summary"]
    for axes, network in zip(figure.subplots(1, 2), (VGG, SEPARABLE), strict=True):
        mine = [r for r in rows if r["network"] == network]
        for number, method in enumerate(dict.fromkeys(r["method"] for r in mine)):
            points = [r for r in mine if r["method"] == method]
            style = "-o" if number < len(COLORS) else "--s"
            axes.plot(
                [100 * r["level"] for r in points],
                [100 * r["mean"] for r in points],
                style,
                color=COLORS[number % len(COLORS)],
                markersize=3,
                label=method,
            )
        axes.axhline(100 * mine[0]["dense"], color="black", linewidth=0.5)
        axes.set(title=network, xlabel="level (%)", ylabel="test accuracy (%)")
        axes.legend(fontsize="x-small")


def finding(content: dict[str, Any]) -> str:
    """Say which methods lose most at the highest level."""
    parts = []
    for network in (VGG, SEPARABLE):
        rows = [r for r in content["summary"] if r["network"] == network]
        last = sorted((r for r in rows if r["level"] == LEVELS[-1]), key=lambda r: r["mean"])
        worst, best = last[0], last[-1]
        parts.append(
            f"{network} network at {LEVELS[-1]:.0%}: {best['method']} {best['mean']:.1%}, "
            f"{worst['method']} {worst['mean']:.1%}, unpruned {worst['dense']:.1%}"
        )
    return f"{len(SEEDS)} seeds, handwritten digits. {'; '.join(parts)}."


def markdown(content: dict[str, Any]) -> str:
    """Return the page: one table a network, a column a level."""
    rows = content["summary"]
    parts = [
        "# Accuracy of the pruning methods on handwritten digits",
        f"Mean test accuracy in percent over {len(SEEDS)} seeds (lowest to highest), 899 test "
        f"images: differences below half a point mean nothing. {EPOCHS} epochs of training, "
        f"{TUNING} of fine-tuning at each level. Levels are fractions of zeros in the pruned "
        "layers; for filters and channels the share of channels is chosen so that a weight which "
        "loses rows and columns has about that many zeros. In the separable network the level is "
        "the share of depthwise weights (of channels, in the last row).",
    ]
    for network in (VGG, SEPARABLE):
        mine = [r for r in rows if r["network"] == network]
        parts.append(f"## {network}, unpruned {100 * mine[0]['dense']:.1f}")
        lines = []
        for method in dict.fromkeys(r["method"] for r in mine):
            points = [r for r in mine if r["method"] == method]
            cells = [
                f"{100 * r['mean']:.1f} ({100 * r['lowest']:.1f}-{100 * r['highest']:.1f})"
                for r in points
            ]
            lines.append([method, *cells])
        parts.append(table(["method", *(f"{level:.0%}" for level in LEVELS)], lines))
    parts.append("![Accuracy over sparsity](digits_accuracy.png)")
    return "\n\n".join(parts)


def main() -> None:
    """Run everything and write the results."""
    small = {"channels": (16, 32, 64, 64), "hidden": (256, 128)}
    rows = earlier(NAME).get("runs", [])
    rows += runs(VGG, lambda seed: digits.build_model(**small, seed=seed), VGG_METHODS, rows)
    rows += runs(SEPARABLE, build_separable, SEPARABLE_METHODS, rows)
    order = [*VGG_METHODS, *SEPARABLE_METHODS]
    rows.sort(key=lambda row: (row["network"] != VGG, row["seed"], order.index(row["method"])))
    content = {"summary": summary(rows), "runs": rows}
    write(NAME, content, markdown(content), lambda f: draw(content, f), (11, 4.5))


if __name__ == "__main__":
    main()
