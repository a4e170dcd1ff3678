"""``--calibration``: batches of inputs in files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tvm_sparse.base.array_files import read_arrays

_HELP = "A batch of inputs: a .npy file, or an .npz file with an array for each input by its name"

Calibration = Annotated[list[Path], typer.Option("--calibration", metavar="FILE", help=f"{_HELP}.")]
MaybeCalibration = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help=f"{_HELP}. Masks and weights are fitted to what layers read.",
    ),
]


def arrays(paths: Iterable[Path]) -> list[Any]:
    """Return the batch in each file: an array, or a mapping of arrays by name."""
    return [read_arrays(path) for path in paths]


def tensors(paths: Iterable[Path]) -> list[Any]:
    """Return the batch in each file, as a module takes it."""
    return [as_tensors(batch) for batch in arrays(paths)]


def as_tensors(batch: Any) -> Any:
    """Return an array, or a mapping of arrays by name, as tensors."""
    import torch

    if isinstance(batch, dict):
        return {name: torch.from_numpy(array) for name, array in batch.items()}
    return torch.from_numpy(batch)


def in_pieces(batches: Iterable[Any], size: int) -> list[Any]:
    """Return batches of ``size`` samples, which are drawn from each of ``batches`` in any order.

    Samples lie along the first axis. A batch whose arrays have other numbers of them stays whole.
    """
    draw = np.random.default_rng(0)
    found: list[Any] = []
    for batch in batches:
        named = batch if isinstance(batch, dict) else {"": batch}
        counts = {len(array) if array.ndim else 0 for array in named.values()}
        count = max(counts)
        if len(counts) > 1 or count <= size:
            found.append(batch)
            continue
        order = draw.permutation(count)
        for places in np.array_split(order, -(-count // size)):
            piece = {name: array[places] for name, array in named.items()}
            found.append(piece if isinstance(batch, dict) else piece[""])
    return found
