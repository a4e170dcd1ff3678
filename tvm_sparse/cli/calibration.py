"""``--calibration``: batches of inputs in files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

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
    import torch

    return [
        {name: torch.from_numpy(array) for name, array in batch.items()}
        if isinstance(batch, dict)
        else torch.from_numpy(batch)
        for batch in arrays(paths)
    ]
