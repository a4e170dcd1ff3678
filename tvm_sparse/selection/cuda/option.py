"""One way to store and compute a contraction on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from tvm_sparse.ops.cuda.separable import SeparableTile
from tvm_sparse.ops.cuda.stream import Warps
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda.demand import Demand


@dataclass(frozen=True)
class Option:
    """One format with its operator ``func(X, *arrays, Y)``, made by :attr:`build` when asked for.

    ``work`` is the fraction of the dense multiply-adds that it executes, ``seconds`` its modelled
    time, ``kernel`` what the operator is called in reports. Of tiles and streams, ``demand`` is
    what that time follows from; ``tile`` is what a thread block computes, of a stream of banks its
    ``warps``. A library is asked from ``least`` rows on, or items of a batch of convolutions.
    """

    name: str
    kernel: str
    format: Any
    work: float
    seconds: float
    build: Callable[[], tirx.PrimFunc] = field(repr=False)
    demand: Demand | None = field(default=None, repr=False)
    tile: ThreadBlockTile | SeparableTile | None = None
    warps: Warps | None = None
    least: int = 0
