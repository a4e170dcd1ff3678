"""The page and the picture of DEPrune's speed (Tables 2 to 4 and 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.kernel_race import best
from benchmarks.papers.output import COLORS, table

NAME = "deprune_speed"
VARIANTS = ("DEPrune", "DEPrune-B", "DEPrune-BH")
HALF = "50 %"
DR = ("whole", "products")
"""The DR path with im2col, and its batched product alone."""

OURS = ("unpruned", *VARIANTS)


@dataclass(frozen=True)
class Published:
    """What the paper reports of one network.

    ``ratios`` are the shares of taps and filters that are removed. ``depthwise`` are the speed-ups
    of the depthwise layers over the unpruned DR path. ``total`` are the times before and
    after, in us.
    """

    title: str
    ratios: tuple[float, float]
    depthwise: Mapping[str, float]
    total: tuple[float, float]


PAPER = {
    "mobilenet_v2": Published(
        "MobileNet-V2",
        (0.779, 0.527),
        dict(zip(VARIANTS, (2.75, 3.35, 3.52), strict=True)),
        (2306, 930),
    ),
    "mobilenet_v3_small": Published(
        "MobileNet-V3-Small",
        (0.821, 0.700),
        dict(zip(VARIANTS, (3.88, 5.09, 5.29), strict=True)),
        (1857, 450),
    ),
    "efficientnet_b0": Published(
        "EfficientNet-B0",
        (0.847, 0.620),
        dict(zip(VARIANTS, (4.51, 5.79, 6.15), strict=True)),
        (6650, 1775),
    ),
}
PAPER_MEMORY = (7.22, 3.63)
"""MB at the peak, MobileNet-V2 before and after pruning half (Table 9)."""


def finding(content: dict[str, Any]) -> str:
    """Say what DEPrune-BH gains over each baseline."""
    parts = []
    last = VARIANTS[-1]
    for network, found in content["networks"].items():
        if "layers" in found:
            rows, paper = found["layers"], PAPER[network]
            base = sums(rows)
            dr = base["DR"] / refactored(rows, last)
            direct = base["direct"] / sum(compiled(row, last) for row in rows)
            parts.append(
                f"{paper.title} {dr:.2f}x over DR (paper {paper.depthwise[last]}x), but "
                f"{direct:.2f}x over an unpruned direct kernel"
            )
    return f"{last}, all depthwise layers: {'; '.join(parts)}."


def markdown(content: dict[str, Any]) -> str:
    """Return the page: depthwise layers, whole network and memory of every network."""
    parts = [
        "# DEPrune: speed and memory on a CPU (Tables 2 to 4 and 9)",
        "One thread, float32, one image; medians, programs in turns, outputs checked. Weights are "
        "random, so the masks have the paper's shares and structure, not its accuracy. The alpha "
        "of DEPrune-BH is measured by compiling each layer here. The paper's baseline is the "
        "unpruned *DR path* (diagonal-wise refactorization, here im2col and a batched product by "
        "PyTorch), which multiplies 32 times more than the layer needs; a direct kernel does not, "
        "so it is shown as a second baseline and the best library as a third.",
    ]
    for network, found in content["networks"].items():
        paper = PAPER[network]
        taps, filters = paper.ratios
        parts.append(f"## {paper.title}, {taps:.1%} of the taps and {filters:.1%} of the filters")
        if "layers" in found:
            parts += [_depthwise(found["layers"], paper), _depthwise_words(found["layers"], paper)]
        if "whole" in found:
            parts += [_whole(found, paper), _memory(found["memory"], network)]
    parts.append("![Speed-up of the depthwise layers](deprune_speed.png)")
    return "\n\n".join(parts)


def compiled(row: dict[str, Any], variant: str) -> float:
    """Return the time of our kernel for a layer: pruned, or dense where that is faster."""
    dense = best(row["ours_dense"])[1]
    formats = row["ours"][variant]
    return min(dense, best(formats)[1]) if formats else dense


def sums(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the times in us of all depthwise layers, unpruned, by baseline."""
    return {
        "DR": refactored(rows),
        "direct": sum(best(row["ours_dense"])[1] for row in rows),
        "library": sum(best(row["libraries_dense"])[1] for row in rows),
    }


def refactored(rows: list[dict[str, Any]], variant: str = "", sort: str = DR[0]) -> float:
    """Return the time in us of the DR path in all layers, unpruned or pruned by ``variant``."""
    found = (row["dr"][variant] if variant else row["dr_dense"] for row in rows)
    return sum(times[sort]["median_us"] for times in found)


def _depthwise(rows: list[dict[str, Any]], paper: Published) -> str:
    base = sums(rows)
    ratios = [f"{base[name] / base['direct']:.2f}x" for name in ("DR", "library")]
    times = [f"{base[name]:.0f}" for name in ("DR", "direct")]
    lines = [["unpruned", times[0], "", times[1], ratios[0], "", ratios[1], ""]]
    for variant in VARIANTS:
        dr = refactored(rows, variant)
        ours = sum(compiled(row, variant) for row in rows)
        lines.append(
            [variant, f"{dr:.0f}", f"{base['DR'] / dr:.2f}x", f"{ours:.0f}"]
            + [f"{base[name] / ours:.2f}x" for name in ("DR", "direct", "library")]
            + [f"{paper.depthwise[variant]:.2f}x"]
        )
    head = ["depthwise layers", "DR (us)", "over unpruned DR", "ours (us)", "over unpruned DR"]
    head += ["over unpruned direct", "over best library", "paper, over unpruned DR"]
    return table(head, lines)


def _depthwise_words(rows: list[dict[str, Any]], paper: Published) -> str:
    base = sums(rows)
    ours = {v: base["direct"] / sum(compiled(row, v) for row in rows) for v in VARIANTS}
    dr = {v: base["DR"] / refactored(rows, v) for v in VARIANTS}
    first, _, last = VARIANTS
    pruned = sum(compiled(row, last) < best(row["ours_dense"])[1] for row in rows)
    library = base["library"]
    return (
        f"On the paper's own path, DR over DR, {last} gains {dr[last]:.2f}x here and "
        f"{paper.depthwise[last]:.2f}x in the paper; BWT and HSR together "
        f"{_change(dr[last] / dr[first])} the time of DR. Against a direct kernel that was never "
        f"refactored the gain is {ours[last]:.2f}x: the pruned kernel is faster in {pruned} of "
        f"{len(rows)} layers, the others stay dense. The unpruned DR path takes "
        f"{base['DR'] / library:.0f} times the time of the best library ("
        f"{refactored(rows, sort=DR[1]) / library:.0f} times without im2col)."
    )


def _change(ratio: float) -> str:
    return f"save {1 - 1 / ratio:.0%} of" if ratio > 1 else f"add {1 / ratio - 1:.0%} to"


def _whole(found: dict[str, Any], paper: Published) -> str:
    times = {name: t["median_us"] for name, t in found["whole"].items()}
    libraries = {name: time for name, time in times.items() if name not in (*OURS, HALF)}
    library = min(libraries, key=libraries.__getitem__)
    fastest = libraries[library]
    before, after = paper.total
    lines = [[f"unpruned, {library}", f"{fastest / 1e3:.2f}", "", "", ""]]
    detour = None
    if "layers" in found:
        base = sums(found["layers"])
        detour = times["unpruned"] - base["direct"] + base["DR"]
        lines.append(["unpruned, ours with DR layers (a sum)", f"{detour / 1e3:.2f}", "", "", ""])
    for name in OURS:
        time = times[name]
        over = f"{detour / time:.2f}x" if detour else ""
        cells = [f"{fastest / time:.2f}x", f"{times['unpruned'] / time:.2f}x", over]
        published = f" (paper: {before / after:.2f}x)" if name == VARIANTS[-1] else ""
        lines.append([f"{name}, ours", f"{time / 1e3:.2f}", *cells[:2], cells[2] + published])
    head = ["whole network", "ms", "over best library", "over ours unpruned", "over DR"]
    return table(head, lines)


def _memory(memory: dict[str, dict[str, int]], network: str) -> str:
    lines = [
        [name, *(f"{memory[name][sort] / 1e6:.2f}" for sort in ("activations", "weights"))]
        for name in (*OURS, HALF)
    ]
    text = table(["peak memory (MB)", "activations", "packed weights"], lines)
    if network != "mobilenet_v2":
        return text
    before, after = (memory[name]["activations"] / 1e6 for name in ("unpruned", HALF))
    return (
        f"{text}\n\nTable 9 reports {PAPER_MEMORY[0]} and {PAPER_MEMORY[1]} MB for half of the "
        f"weights ({PAPER_MEMORY[0] / PAPER_MEMORY[1]:.2f}x less). Here activations go from "
        f"{before:.2f} to {after:.2f} MB ({before / after:.2f}x): the widest tensor is the output "
        "of a PW-conv1, which DEPrune never prunes; its inputs and PW-conv2's outputs shrink."
    )


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw the speed-up of the depthwise layers over the three baselines, a panel a network."""
    shown = {n: f["layers"] for n, f in content["networks"].items() if "layers" in f}
    panels = np.atleast_1d(figure.subplots(1, max(1, len(shown)), sharey=True))
    for axes, (network, rows) in zip(panels, shown.items(), strict=False):
        base = sums(rows)
        paper = PAPER[network]
        dr = [refactored(rows, v) for v in VARIANTS]
        ours = [sum(compiled(row, v) for row in rows) for v in VARIANTS]
        bars = {
            "paper, DR over DR": [paper.depthwise[v] for v in VARIANTS],
            "here, DR over DR": [base["DR"] / t for t in dr],
            "ours over direct": [base["direct"] / t for t in ours],
            "ours over best library": [base["library"] / t for t in ours],
        }
        for number, (label, values) in enumerate(bars.items()):
            places = np.arange(len(VARIANTS)) + 0.2 * (number - 1.5)
            axes.bar(places, values, 0.2, color=COLORS[number], label=label)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xticks(range(len(VARIANTS)), VARIANTS, fontsize="small")
        axes.set(title=paper.title)
    panels[0].set_ylabel("speed-up of all depthwise layers")
    if shown:
        panels[0].legend(fontsize="x-small")
