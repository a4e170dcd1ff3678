"""Guo et al., Fig. 5 and 6: an 8192 x 8192 weight over the mixed ratio, on this CPU.

All masks of a row have the same achieved sparsity, as in the paper. Run with
``python -m benchmarks.papers.joint_gemm [--figures 5 6] [--sparsities 0.5 0.7 0.9]``; rows that
were measured before stay in the JSON.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import torch

from benchmarks.cases.kernel_cases import linear
from benchmarks.harness.kernel_race import DENSE, Race, best
from benchmarks.papers.output import COLORS, earlier, table, tell, write
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.joint import Joint

NAME = "joint_gemm"
SIZE, BATCH = 8192, 128
FIGURES = {5: (2048, 16), 6: (512, 4)}
"""Columns of a vector (K) and extent of a block (R = S)."""

SPARSITIES = (0.5, 0.7, 0.9)
MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
BETWEEN = 0.05
"""Share by which a time may lie outside two others and still count as between them."""


def target_of(sparsity: float, mix: float) -> float:
    """Return the target ``s_t`` whose independent masks remove ``sparsity`` together.

    Solves ``(1 - s_f) (1 - s_c) = 1 - sparsity`` with ``s_f`` and ``s_c`` after Eq. 2 and 3.
    """
    fine, coarse = Joint.targets(1.0, mix)
    product, total = fine * coarse, fine + coarse
    if product == 0:
        return sparsity
    return (total - math.sqrt(total**2 - 4 * product * sparsity)) / (2 * product)


def mask_of(weight: np.ndarray, sparsity: float, mix: float, vector: int, block: int) -> np.ndarray:
    """Return a joint mask; the coarse scores are random, as gradients are not to be had."""
    fine, coarse = Joint.targets(target_of(sparsity, mix), mix)
    scores = np.random.default_rng(1).random(weight.shape, dtype=np.float32)
    kept = Balanced(vector, round(vector * (1 - fine))).project(np.abs(weight))
    return kept & Block(block, block).project(scores, coarse)


def measure(figure: int, sparsity: float, mixes: tuple[float, ...] = MIXES) -> dict[str, Any]:
    """Return the times of all mixed ratios at one sparsity, and of the dense layer."""
    vector, block = FIGURES[figure]
    race = Race(linear(BATCH, SIZE, SIZE))
    race.add_dense()
    found = {}
    for mix in mixes:
        tell(f"Fig. {figure}, sparsity {sparsity}, p = {mix}")
        mask = mask_of(race.weight, sparsity, mix, vector, block)
        found[mix] = 1 - float(mask.mean())
        race.add_sparse(mix, mask, libraries=mix == mixes[0])
    race.run(rounds=7, seconds=0.05)
    return {
        "figure": figure,
        "sparsity": sparsity,
        "ours_dense": race.ours(DENSE),
        "libraries_dense": race.libraries(DENSE),
        "libraries_sparse_at_p_0": race.libraries(mixes[0]),
        "ours": [{"mix": p, "achieved": found[p], "formats": race.ours(p)} for p in mixes],
        "error": race.error,
    }


def claims(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Count how often the paper's statements about the order of the times hold here."""
    counts = dict.fromkeys(("rows", "block_first", "mixes", "between"), 0)
    for row in rows:
        times = [best(entry["formats"])[1] for entry in row["ours"]]
        low, high = sorted((times[0], times[-1]))
        inner = times[1:-1]
        counts["rows"] += 1
        counts["block_first"] += times[0] < times[-1]
        counts["mixes"] += len(inner)
        counts["between"] += sum(low * (1 - BETWEEN) <= t <= high * (1 + BETWEEN) for t in inner)
    return counts


def finding(content: dict[str, Any]) -> str:
    """Say what holds of the paper's statements."""
    parts = []
    for figure in FIGURES:
        rows = [row for row in content["rows"] if row["figure"] == figure]
        if rows:
            parts.append(f"Fig. {figure}: {_statement(figure, claims(rows))}")
    return " ".join(parts)


def markdown(content: dict[str, Any]) -> str:
    """Return the page: a table a figure, and what holds of the paper's statements."""
    parts = [
        "# Joint sparsity: 8192 x 8192 over the mixed ratio (Guo et al., Fig. 5 and 6)",
        f"One thread, float32, {BATCH} rows of activations (the paper does not state its number). "
        "Milliseconds, medians, all programs of a row in turns; outputs checked against float64. "
        "p = 0 is block sparsity, p = 1 balanced sparsity with vectors of K columns. The paper "
        "gives curves of a GPU without numbers, so its statements are compared, not its times.",
    ]
    for figure, (vector, block) in FIGURES.items():
        rows = [row for row in content["rows"] if row["figure"] == figure]
        if rows:
            parts.append(f"## Fig. {figure}: K = {vector}, R = S = {block}")
            parts += [_table(rows), _statement(figure, claims(rows))]
    parts.append("![Time over the mixed ratio](joint_gemm.png)")
    return "\n\n".join(parts)


def _table(rows: list[dict[str, Any]]) -> str:
    mixes = [entry["mix"] for entry in rows[0]["ours"]]
    lines = []
    for row in rows:
        dense, fastest = best(row["libraries_dense"])
        own = best(row["ours_dense"])[1]
        sparse, time = best(row["libraries_sparse_at_p_0"])
        lines.append(
            [f"{row['sparsity']:.0%}", f"{fastest / 1e3:.1f} ({dense})", f"{own / 1e3:.1f}"]
            + [_cell(*best(entry["formats"]), fastest) for entry in row["ours"]]
            + [f"{time / 1e3:.1f} ({sparse})"]
        )
    head = ["zeros", "best dense library", "ours, dense", *(f"p = {mix:g}" for mix in mixes)]
    return table([*head, "best sparse library, p = 0"], lines)


def _cell(format: str, time: float, dense: float) -> str:
    return f"{time / 1e3:.1f} ({format}, {dense / time:.2f}x)"


def _statement(figure: int, found: dict[str, int]) -> str:
    first, rows = found["block_first"], found["rows"]
    said = "block sparsity slightly faster" if figure == 5 else "balanced sparsity faster"
    agrees = first if figure == 5 else rows - first
    return (
        f"The paper finds {said}, and joint sparsity in between. Here block sparsity is faster "
        f"than balanced sparsity in {first} of {rows} rows, so the first statement "
        f"{_verdict(agrees, rows)}; {found['between']} of {found['mixes']} joint masks lie between "
        f"both (within {BETWEEN:.0%}), so the second {_verdict(found['between'], found['mixes'])}."
    )


def _verdict(count: int, total: int) -> str:
    if count == total:
        return "holds"
    return "does not hold on this CPU" if count == 0 else f"holds in {count} of {total} cases"


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw time over the mixed ratio, one panel a figure, a color a sparsity."""
    for axes, number in zip(figure.subplots(1, 2), FIGURES, strict=True):
        rows = [row for row in content["rows"] if row["figure"] == number]
        for row, color in zip(rows, COLORS, strict=False):
            times = [best(entry["formats"])[1] / 1e3 for entry in row["ours"]]
            mixes = [entry["mix"] for entry in row["ours"]]
            axes.plot(mixes, times, "-o", color=color, label=f"{row['sparsity']:.0%} zeros")
            dense = best(row["libraries_dense"])[1] / 1e3
        if rows:
            axes.axhline(dense, color="black", linewidth=0.8, label="best dense library")
            axes.legend(fontsize="small")
        vector, block = FIGURES[number]
        axes.set(
            title=f"Fig. {number}: K = {vector}, R = S = {block}",
            xlabel="mixed ratio p (0: block, 1: balanced)",
            ylabel="ms",
            ylim=(0, None),
        )


def main(values: list[str] | None = None) -> None:
    """Measure what is asked for, keep other rows, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", nargs="*", type=int, choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--sparsities", nargs="*", type=float, default=list(SPARSITIES))
    options = parser.parse_args(values)
    torch.set_num_threads(1)
    rows = {(r["figure"], r["sparsity"]): r for r in earlier(NAME).get("rows", [])}
    for figure in options.figures:
        for sparsity in options.sparsities:
            rows[figure, sparsity] = measure(figure, sparsity)
            content = {"size": SIZE, "batch": BATCH, "rows": [rows[key] for key in sorted(rows)]}
            write(NAME, content, markdown(content), lambda f, c=content: draw(c, f), (11, 4.5))


if __name__ == "__main__":
    main()
