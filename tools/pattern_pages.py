"""Draw the masks in docs/patterns.md with the patterns' own code.

    python tools/pattern_pages.py

A test holds the pictures to the code.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.patterns.filters import FilterPruned
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.unstructured import Unstructured

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "patterns"
ROWS, COLS, CELL = 24, 64, 6

DRAWN: dict[str, tuple[Pattern, float | None, tuple[int, int]]] = {
    "balanced": (Balanced(16, 4), None, (ROWS, COLS)),
    "n_of_m": (Balanced(4, 2), None, (ROWS, COLS)),
    "block": (Block(8, 4), 0.75, (ROWS, COLS)),
    "joint": (Joint(Balanced(16, 8), Block(8, 8)), 0.75, (ROWS, COLS)),
    "depthwise_taps": (DepthwiseTaps(group=8), 0.5, (ROWS, 9)),
    "filter_pruned": (FilterPruned(), 0.5, (ROWS, COLS)),
    "unstructured": (Unstructured(), 0.75, (ROWS, COLS)),
}
"""The pattern of each picture, its sparsity where the pattern does not say, and the extents."""


def drawings() -> dict[str, str]:
    """Return an SVG for each picture."""
    found = {}
    for name, (pattern, sparsity, shape) in DRAWN.items():
        scores = np.random.default_rng(0).random(shape)
        found[name] = _svg(pattern.project(scores, sparsity), pattern)
    return found


def _svg(mask: np.ndarray, pattern: Pattern) -> str:
    rows, cols = mask.shape
    width, height = CELL * cols, CELL * rows
    cells = "".join(
        f"M{CELL * c} {CELL * r}h{CELL - 1}v{CELL - 1}h-{CELL - 1}z" for r, c in np.argwhere(mask)
    )
    down, across = pattern.units()
    lines = []
    if across:
        lines += [f"M{CELL * c - 0.5} 0V{height}" for c in range(across, cols, across)]
    if down > 1:
        lines += [f"M0 {CELL * r - 0.5}H{width}" for r in range(down, rows, down)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">\n'
        f"<title>{pattern.describe()}</title>\n"
        f'<path fill="#2f6f9f" d="{cells}"/>\n'
        f'<path stroke="#9fb3c8" fill="none" d="{"".join(lines)}"/>\n'
        "</svg>\n"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in drawings().items():
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
