"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from tvm_sparse import json_text
from tvm_sparse.array_files import read_array
from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    import torch

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A .pt2 or .onnx file, or pkg.module:factory.")
]
Factory = Annotated[
    str, typer.Argument(metavar="SOURCE", help="pkg.module:factory, which returns the model.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="The model's weights: a .safetensors file, an index, a folder.",
    ),
]
Examples = Annotated[
    list[Path] | None,
    typer.Option(
        "--input", metavar="FILE", help="An example input, a .npy file; once for each input."
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        metavar="NAME",
        help="Compile an .onnx file up to this value; once for each.",
    ),
]
Constants = Annotated[
    list[str] | None,
    typer.Option(
        "--constant",
        metavar="NAME=NUMBER",
        help="Fix this input of an .onnx file; once for each. NUMBER may be a .npy file.",
    ),
]


def constants(texts: list[str] | None) -> dict[str, np.ndarray] | None:
    """Read values like ``rate=16000`` or ``table=table.npy`` by their names."""
    found: dict[str, np.ndarray] = {}
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        try:
            number: np.ndarray | None = np.asarray(json_text.parsed(value))
        except ValueError:
            number = read_array(Path(value)) if value.endswith(".npy") else None
        if not (name and equals) or number is None or number.dtype.kind not in "biuf":
            raise typer.BadParameter(f"'{text}' is not like rate=16000 or table=table.npy")
        found[name] = number
    return found or None


@dataclass(frozen=True)
class InputShape:
    """Extents and dtype of one example input."""

    extents: tuple[int, ...]
    dtype: str = "float32"


def parse_shape(text: str) -> InputShape:
    """Read ``1,3,224,224`` or, with a dtype, ``1,128:int64``."""
    extents, _, dtype = text.partition(":")
    try:
        shape = InputShape(tuple(int(e) for e in extents.split(",")), dtype or "float32")
        np.dtype(shape.dtype)
    except (ValueError, TypeError):
        raise typer.BadParameter(f"'{text}' is not like 1,3,224,224 or 1,128:int64") from None
    if min(shape.extents) < 1:
        raise typer.BadParameter(f"'{text}' has an extent below 1")
    return shape


Shapes = Annotated[
    list[InputShape] | None,
    typer.Option(
        "--shape",
        parser=parse_shape,
        metavar="1,3,224,224[:dtype]",
        help="Shape of an example input; once for each input.",
    ),
]


def use_threads(threads: int) -> None:
    """Let every runtime that is imported from now on use so many threads."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(threads)


def check_factory(source: str) -> None:
    """Refuse a source that is no ``pkg.module:factory``."""
    if ":" not in source:
        raise InputError(f"'{source}'", "is no factory", "pkg.module:factory")


def example_inputs(
    shapes: list[InputShape] | None, files: list[Path] | None
) -> tuple[torch.Tensor, ...] | None:
    """Return the examples that ``--shape`` or ``--input`` describe, ``None`` without either.

    Values for a shape are random in [0, 1) if floating, zeros if not: only shape and dtype count.
    """
    if shapes and files:
        raise typer.BadParameter("give --shape or --input, not both")
    import torch

    if files:
        return tuple(torch.from_numpy(read_array(f)) for f in files)
    return tuple(torch.from_numpy(random_array(s.extents, s.dtype)) for s in shapes or ()) or None


def random_array(extents: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array of random values in [0, 1) if ``dtype`` is floating, of zeros if not."""
    if not np.issubdtype(np.dtype(dtype), np.floating):
        return np.zeros(extents, dtype)
    return np.random.default_rng(0).random(extents, np.float32).astype(dtype)
