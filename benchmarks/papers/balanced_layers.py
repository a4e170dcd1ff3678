"""Yao et al.: VGG-16, LSTM-PTB and CTC-TIMIT layer by layer, on this CPU.

Run with ``python -m benchmarks.papers.balanced_layers [--networks VGG-16] [--layers fc6 fc7]``;
layers that were measured before stay in the JSON.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import torch

from benchmarks.cases.kernel_cases import BANK, Case, conv, linear
from benchmarks.harness.kernel_race import DENSE, Race, best
from benchmarks.papers.output import COLORS, earlier, table, tell, write
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.unstructured import Unstructured

NAME = "balanced_layers"
BLOCK = 16
PATTERNS = ("balanced", "block", "unstructured")


@dataclass(frozen=True)
class Network:
    """One network of the paper: its layers with how often each occurs, and published times in us.

    ``keep`` of 16 weights stay, which comes nearest to ``wanted``, the paper's sparsity.
    """

    layers: Mapping[str, tuple[Case, int]]
    keep: int
    wanted: float
    published: tuple[float, float]
    remark: str = ""


def _vgg(size: int, *widths: int) -> dict[str, tuple[Case, int]]:
    """Return the convolutions of one of VGG-16's five stages; equal layers are joined."""
    stage = {224: 1, 112: 2, 56: 3, 28: 4, 14: 5}[size]
    found: dict[str, tuple[Case, int]] = {}
    cases = [conv(size, a, b, 3) for a, b in itertools.pairwise(widths)]
    for number, case in enumerate(cases, 1):
        if number == 1 or case != cases[number - 2]:
            count = cases.count(case)
            last = f" to {number + count - 1}" if count > 1 else ""
            found[f"conv{stage}_{number}{last}"] = case, count
    return found


NETWORKS = {
    "VGG-16": Network(
        {
            **_vgg(224, 3, 64, 64),
            **_vgg(112, 64, 128, 128),
            **_vgg(56, 128, 256, 256, 256),
            **_vgg(28, 256, 512, 512, 512),
            **_vgg(14, 512, 512, 512, 512),
            "fc6": (linear(1, 25088, 4096), 1),
            "fc7": (linear(1, 4096, 4096, cold=True), 1),
            "fc8": (linear(1, 4096, 1000), 1),
        },
        keep=1,
        wanted=0.92,
        published=(6814, 5213),
        remark="In the paper fc6 gains 4.2x, fc7 3.8x, and the first four convolutions lose.",
    ),
    "LSTM-PTB": Network(
        {"input and hidden, 2 layers": (linear(1, 1500, 6000, cold=True), 4)},
        keep=3,
        wanted=0.80,
        published=(294.1, 120.2),
        remark="The four products of one step, which is what the paper's time seems to be.",
    ),
    "CTC-TIMIT": Network(
        {"hidden, 2 directions": (linear(1, 1024, 4096), 2)},
        keep=2,
        wanted=0.875,
        published=(117.9, 83.9),
        remark="The recurrent products of one step; the paper does not state the features that "
        "go in, so the small input and output layers are left out.",
    ),
}


def prepare(case: Case, keep: int) -> Race:
    """Return the programs of one layer, dense and with each pattern that fits it."""
    race = Race(case)
    race.add_dense()
    scores, sparsity = np.abs(race.weight), 1 - keep / BANK
    if case.contraction.columns >= BANK:
        masks = {
            "balanced": Balanced(BANK, keep).project(scores),
            "block": Block(BLOCK, BLOCK).project(scores, sparsity),
            "unstructured": Unstructured().project(scores, sparsity),
        }
        for pattern, mask in masks.items():
            race.add_sparse(pattern, mask, libraries=False)
    return race


def timed(race: Race, keep: int) -> dict[str, Any]:
    """Return the times of one layer."""
    race.run(rounds=11, seconds=0.03)
    return {
        "case": race.case.name,
        "sparsity": 1 - keep / BANK,
        "ours_dense": race.ours(DENSE),
        "libraries_dense": race.libraries(DENSE),
        "ours": {pattern: found for pattern in PATTERNS if (found := race.ours(pattern))},
        "error": race.error,
    }


def total(rows: list[dict[str, Any]], pattern: str) -> float:
    """Return the time of all layers in us; layers that no pattern fits run dense."""
    return sum(row["count"] * _time(row, pattern) for row in rows)


def _time(row: dict[str, Any], pattern: str) -> float:
    if pattern == "library":
        return best(row["libraries_dense"])[1]
    return best(row["ours"].get(pattern, row["ours_dense"]))[1]


def finding(content: dict[str, Any]) -> str:
    """Compare the sums of all layers with the paper's."""
    parts = []
    for name, network in NETWORKS.items():
        rows = [row for row in content["rows"] if row["network"] == name]
        if rows:
            ratio = total(rows, "library") / total(rows, "balanced")
            dense, sparse = network.published
            parts.append(f"{name} {ratio:.2f}x (paper {dense / sparse:.2f}x)")
    return f"All layers, balanced over the best dense library: {'; '.join(parts)}."


def markdown(content: dict[str, Any]) -> str:
    """Return the page: a table a network, with totals beside the paper's."""
    parts = [
        "# Balanced sparsity layer by layer: VGG-16, LSTM-PTB, CTC-TIMIT (Yao et al.)",
        "One thread, float32, batch 1; microseconds, medians, all programs of a row in turns, "
        "outputs checked against float64. In brackets: best dense library over ours. Balanced "
        f"masks have banks of {BANK} columns, blocks are {BLOCK} x {BLOCK}, all with the same "
        "sparsity. Random weights: speed depends on the mask, not on the values. The paper's times "
        "are those of a GPU, so only ratios compare.",
    ]
    for name, network in NETWORKS.items():
        rows = [row for row in content["rows"] if row["network"] == name]
        if rows:
            parts += [
                f"## {name}, {rows[0]['sparsity']:.2%} zeros (paper: {network.wanted:.1%})",
                _table(rows),
                _statement(rows, network),
            ]
    parts.append("![Speed-up of every layer](balanced_layers.png)")
    return "\n\n".join(parts)


def _table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        name, dense = best(row["libraries_dense"])
        layer = row["layer"] + (f" (x{row['count']})" if row["count"] > 1 else "")
        cells = [layer, row["case"], f"{dense:.0f} ({name})", f"{best(row['ours_dense'])[1]:.0f}"]
        for pattern in PATTERNS:
            found = row["ours"].get(pattern)
            time = best(found)[1] if found else 0.0
            cells.append(f"{time:.0f} ({dense / time:.2f}x)" if found else "stays dense")
        lines.append(cells)
    times = [total(rows, which) for which in ("library", "dense", *PATTERNS)]
    sums = [
        f"{times[0]:.0f}",
        f"{times[1]:.0f}",
        *(f"{t:.0f} ({times[0] / t:.2f}x)" for t in times[2:]),
    ]
    lines.append(["sum", "", *sums])
    return table(["layer", "shape", "best dense library", "ours, dense", *PATTERNS], lines)


def _statement(rows: list[dict[str, Any]], network: Network) -> str:
    dense, sparse = network.published
    ours = total(rows, "library") / total(rows, "balanced")
    slower = [r["layer"] for r in rows if r["ours"] and _time(r, "balanced") > _time(r, "library")]
    lost = f"slower than dense: {', '.join(slower)}" if slower else "no pruned layer is slower"
    return (
        f"Balanced over dense: {ours:.2f}x here, {dense / sparse:.2f}x in the paper ({dense:g} to "
        f"{sparse:g} us); here {lost}. {network.remark}"
    )


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw the speed-up of every layer over the best dense library."""
    axes = figure.subplots()
    rows = [row for row in content["rows"] if row["ours"]]
    places = np.arange(len(rows))
    for number, pattern in enumerate(PATTERNS):
        ratios = [_time(row, "library") / _time(row, pattern) for row in rows]
        axes.bar(places + 0.27 * (number - 1), ratios, 0.27, color=COLORS[number], label=pattern)
    axes.axhline(1, color="black", linewidth=0.8)
    labels = [f"{row['network']}\n{row['layer']}" for row in rows]
    axes.set_xticks(places, labels, rotation=60, ha="right", fontsize="x-small")
    axes.set(yscale="log", ylabel="best dense library over ours")
    axes.legend(fontsize="small")


def main(values: list[str] | None = None) -> None:
    """Measure what is asked for, keep other rows, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--layers", nargs="*", help="default: all")
    options = parser.parse_args(values)
    torch.set_num_threads(1)
    rows = {(r["network"], r["layer"]): r for r in earlier(NAME).get("rows", [])}
    order = [(name, layer) for name, network in NETWORKS.items() for layer in network.layers]
    races = {}
    for name, layer in order:
        if name in options.networks and (not options.layers or layer in options.layers):
            tell(f"{name}, {layer}")
            races[name, layer] = prepare(NETWORKS[name].layers[layer][0], NETWORKS[name].keep)
    for (name, layer), race in races.items():
        network = NETWORKS[name]
        row = {"network": name, "layer": layer, "count": network.layers[layer][1]}
        rows[name, layer] = {**row, **timed(race, network.keep)}
    content = {"rows": [rows[key] for key in order if key in rows]}
    write(NAME, content, markdown(content), lambda f: draw(content, f), (11, 5))


if __name__ == "__main__":
    main()
