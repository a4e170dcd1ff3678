"""Yao et al., the 16384 x 8196 benchmark: four curves over sparsity, on this CPU.

Dense, balanced, block and unstructured at 50 to 97 %, one and eight rows of activations. Run with
``python -m benchmarks.papers.balanced_gemm [--batches 1 8] [--kept 16 8 4]``; rows that were
measured before stay in the JSON.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
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
from tvm_sparse.patterns.unstructured import Unstructured

NAME = "balanced_gemm"
FEATURES, COLUMNS = 16384, 8196
BATCHES = (1, 8)
BANK, BLOCK = 32, 16
KEPT = (16, 12, 8, 4, 3, 2, 1)
"""Weights that a bank of 32 keeps: 50 to 96.9 % zeros, whatever the pattern."""

PAPER = {
    1: {0.5: 1.1, 0.75: 2.1, 0.875: 3.5},
    8: {0.5: 1.9, 0.75: 3.3, 0.875: 5.5},
}
"""Dense over balanced on the paper's GPU, by batch and sparsity."""


def masks_of(scores: np.ndarray, kept: int) -> dict[str, np.ndarray]:
    """Return the three masks with the sparsity of ``kept`` of 32."""
    sparsity = 1 - kept / BANK
    narrow = BANK // 2 if kept % 2 == 0 else BANK
    return {
        "balanced": Balanced(narrow, kept * narrow // BANK).project(scores),
        "block": Block(BLOCK, BLOCK).project(scores, sparsity),
        "unstructured": Unstructured().project(scores, sparsity),
    }


def measure(batch: int, kept: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield the times of the dense layer and of the three patterns at each sparsity."""
    race = Race(linear(batch, COLUMNS, FEATURES))
    race.add_dense()
    achieved: dict[int, dict[str, float]] = {}
    for count in kept:
        achieved[count] = {}
        for pattern, mask in masks_of(np.abs(race.weight), count).items():
            tell(f"batch {batch}, {count} of {BANK}, {pattern}")
            achieved[count][pattern] = 1 - float(mask.mean())
            race.add_sparse((count, pattern), mask, libraries=False)
    race.run(rounds=11, seconds=0.05)
    for count in kept:
        yield {
            "batch": batch,
            "kept": count,
            "sparsity": 1 - count / BANK,
            "ours_dense": race.ours(DENSE),
            "libraries_dense": race.libraries(DENSE),
            "achieved": achieved[count],
            "ours": {pattern: race.ours((count, pattern)) for pattern in achieved[count]},
            "error": race.error,
        }


def finding(content: dict[str, Any]) -> str:
    """Compare our ratios with the paper's where it gives them."""
    parts = []
    for row in content["rows"]:
        paper = PAPER[row["batch"]].get(row["sparsity"])
        if paper:
            ratio = best(row["libraries_dense"])[1] / best(row["ours"]["balanced"])[1]
            parts.append(
                f"batch {row['batch']}, {row['sparsity']:.1%}: {ratio:.2f}x (paper {paper}x)"
            )
    return f"Balanced over the best dense library: {'; '.join(parts)}."


def markdown(content: dict[str, Any]) -> str:
    """Return the page: a table a batch size, our ratios beside the paper's."""
    parts = [
        f"# Balanced sparsity: {FEATURES} x {COLUMNS} at 50 to 97 % (Yao et al.)",
        "One thread, float32; milliseconds, medians, all programs of a row in turns, outputs "
        "checked against float64. In brackets: best dense library over ours. Banks of 16 columns "
        "(32 where the kept share is no multiple of a sixteenth: our format has banks of 16 and "
        "pads these to their fuller half, which costs about twice), blocks of 16 x 16. The dense "
        "weight (537 MB) streams from memory in every call, and so do pruned ones that do not fit "
        "into the last-level cache. The paper's ratios are dense (cuBLAS) over balanced on a GPU.",
    ]
    for batch in BATCHES:
        rows = [row for row in content["rows"] if row["batch"] == batch]
        if rows:
            parts += [f"## Batch {batch}", _table(rows, batch), _statement(rows)]
    parts.append("![Time over sparsity](balanced_gemm.png)")
    return "\n\n".join(parts)


def _table(rows: list[dict[str, Any]], batch: int) -> str:
    lines = []
    for row in rows:
        name, dense = best(row["libraries_dense"])
        cells = [f"{row['sparsity']:.1%}", f"{dense / 1e3:.1f} ({name})"]
        cells.append(f"{best(row['ours_dense'])[1] / 1e3:.1f}")
        for formats in row["ours"].values():
            format, time = best(formats)
            cells.append(f"{time / 1e3:.2f} ({format}, {dense / time:.2f}x)")
        paper = PAPER[batch].get(row["sparsity"])
        lines.append([*cells, f"{paper}x" if paper else ""])
    head = ["zeros", "best dense library", "ours, dense", *rows[0]["ours"]]
    return table([*head, "paper, balanced"], lines)


def _statement(rows: list[dict[str, Any]]) -> str:
    """Say how the three patterns compare in these rows."""
    times = [{p: best(s)[1] for p, s in row["ours"].items()} for row in rows]
    fine = sum(t["balanced"] < t["unstructured"] for t in times)
    near = max(t["balanced"] / t["block"] for t in times)
    return (
        f"Balanced sparsity is faster than unstructured sparsity in {fine} of {len(rows)} rows, "
        f"and takes at most {near:.2f} times the time of blocks."
    )


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw the four curves, one panel a batch size."""
    for axes, batch in zip(figure.subplots(1, 2), BATCHES, strict=True):
        rows = [row for row in content["rows"] if row["batch"] == batch]
        zeros = [100 * row["sparsity"] for row in rows]
        curves = {"dense (best library)": [best(row["libraries_dense"])[1] for row in rows]}
        for pattern in rows[0]["ours"] if rows else ():
            curves[pattern] = [best(row["ours"][pattern])[1] for row in rows]
        for (name, times), color in zip(curves.items(), COLORS, strict=False):
            axes.plot(zeros, [t / 1e3 for t in times], "-o", color=color, label=name, ms=3)
        axes.set(title=f"batch {batch}", xlabel="zeros (%)", ylabel="ms", ylim=(0, None))
        axes.legend(fontsize="small")


def main(values: list[str] | None = None) -> None:
    """Measure what is asked for, keep other rows, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", nargs="*", type=int, choices=BATCHES, default=list(BATCHES))
    parser.add_argument("--kept", nargs="*", type=int, choices=KEPT, default=list(KEPT))
    options = parser.parse_args(values)
    torch.set_num_threads(1)
    rows = {(r["batch"], -r["kept"]): r for r in earlier(NAME).get("rows", [])}
    for batch in options.batches:
        rows.update({(batch, -row["kept"]): row for row in measure(batch, options.kept)})
        content = {
            "features": FEATURES,
            "columns": COLUMNS,
            "rows": [rows[key] for key in sorted(rows)],
        }
        write(NAME, content, markdown(content), lambda f, c=content: draw(c, f), (11, 4.5))


if __name__ == "__main__":
    main()
