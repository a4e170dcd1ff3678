"""How a network's time divides between sorts of kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

SPARSE = ("balanced", "block", "compressed_rows", "unstructured", "joint", "depthwise_taps")
SORTS: dict[str, tuple[str, ...]] = {
    "sparse layers": SPARSE,
    "depthwise layers": ("depthwise",),
    "products of activations": ("matmul",),
    "softmax and layer norm": ("softmax", "layer_norm"),
    "padding": ("pad",),
    "first and unpruned layers": ("dense", "winograd"),
}
"""Sorts of kernels, each with words in its functions' names; the first sort that fits counts."""

OTHER = "other kernels"


def microseconds(kernels: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return microseconds by sort of kernel."""
    spent: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        words = (name for name, ws in SORTS.items() if any(w in kernel["function"] for w in ws))
        spent[next(words, OTHER)] += kernel["us"]
    return dict(spent)
