"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tvm_sparse.base import json_text
from tvm_sparse.base.array_files import read_array
from tvm_sparse.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A .pt2 or .onnx file, or pkg.module:factory.")
]
Factory = Annotated[
    str, typer.Argument(metavar="SOURCE", help="pkg.module:factory, which returns the model.")
]
FileOrFactory = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="An .onnx file, or pkg.module:factory, which returns the model."
    ),
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
WeightsOutput = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .safetensors file for the weights, an .onnx file where SOURCE is one.",
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
    """Extents and dtype of one example input, and its name where it is given.

    A text among the extents names one that stays open.
    """

    extents: tuple[int | str, ...]
    dtype: str = "float32"
    name: str = ""


def parse_shape(text: str) -> InputShape:
    """Read ``1,3,224,224``, with a dtype ``1,128:int64``, with a name ``x=1,3,48,W``."""
    name, _, rest = text.rpartition("=")
    extents, _, dtype = rest.partition(":")
    try:
        parts = [e.strip() for e in extents.split(",")] if extents.strip() else []
        shape = InputShape(tuple(map(_extent, parts)), dtype or "float32", name)
        np.dtype(shape.dtype)
    except (ValueError, TypeError):
        wanted = "1,3,224,224 or 1,128:int64 or x=1,3,48,W"
        raise typer.BadParameter(f"'{text}' is not like {wanted}") from None
    if min((e for e in shape.extents if isinstance(e, int)), default=1) < 1:
        raise typer.BadParameter(f"'{text}' has an extent below 1")
    if not name and (not parts or not all(isinstance(e, int) for e in shape.extents)):
        raise typer.BadParameter(f"'{text}' is not like 1,3,224,224 or x=1,3,48,W")
    return shape


def _extent(text: str) -> int | str:
    if text[:1].isalpha() or text[:1] == "_":
        return text
    return int(text)


@dataclass(frozen=True)
class Bound:
    """The range of an open extent."""

    name: str
    low: int
    high: int | None


def parse_bound(text: str) -> Bound:
    """Read ``N=32`` or ``N=8:32`` or ``N=8:``."""
    name, _, limits = text.rpartition("=")
    low, colon, high = limits.partition(":")
    try:
        if name and colon:
            return Bound(name, int(low), int(high) if high else None)
        if name:
            return Bound(name, 1, int(low))
    except ValueError:
        pass
    raise typer.BadParameter(f"'{text}' is not like N=32 or N=8:32")


def parse_sizes(text: str) -> dict[str, int]:
    """Read ``B=8,T=64``."""
    found = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not name.strip() or not size.strip().isdecimal() or int(size) < 1:
            raise typer.BadParameter(f"'{text}' is not like B=8,T=64")
        found[name.strip()] = int(size)
    return found


def refuse_both(files: list[Path] | None, at: list[Any] | None) -> None:
    """Refuse sizes for inputs that are given."""
    if files and at:
        raise typer.BadParameter("given inputs have their sizes", param_hint="--at")


Sizes = Annotated[
    list[Any] | None,
    typer.Option(
        "--at",
        parser=parse_sizes,
        metavar="NAME=SIZE,...",
        help="Open extents of the inputs that are made; once for each set of sizes.",
    ),
]
Shapes = Annotated[
    list[InputShape] | None,
    typer.Option(
        "--shape",
        parser=parse_shape,
        metavar="[NAME=]1,3,224,224[:dtype]",
        help="Shape of an input; once for each. Of an .onnx file it fixes open extents.",
    ),
]
Bounds = Annotated[
    list[Bound] | None,
    typer.Option(
        "--bound",
        parser=parse_bound,
        metavar="NAME=[LEAST:]MOST",
        help="Range of an open extent of an .onnx file; once for each.",
    ),
]


def use_threads(threads: int) -> None:
    """Let every runtime that is imported from now on use so many threads."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(threads)


def check_factory(source: str, expected: str = "pkg.module:factory") -> None:
    """Refuse a source that is no ``pkg.module:factory``."""
    if ":" not in source:
        raise InputError(f"'{source}'", "is no factory", expected)


def is_onnx(source: str, weights: Path | None = None) -> bool:
    """Return whether ``source`` is an ``.onnx`` file, and no ``pkg.module:factory``.

    What is neither is refused, and weights beside a file, which has its own.
    """
    if not source.endswith(".onnx"):
        check_factory(source, "an .onnx file, or pkg.module:factory")
        return False
    if weights is not None:
        raise typer.BadParameter("an .onnx file has its own", param_hint="--weights")
    return True


def load_model(
    source: str,
    *,
    target: str,
    shapes: list[InputShape] | None = None,
    files: list[Path] | None = None,
    weights: Path | None = None,
    dynamic_batch: bool = False,
    bounds: list[Bound] | None = None,
    outputs: list[str] | None = None,
    fixed: dict[str, np.ndarray] | None = None,
) -> Any:
    """Import ``source`` for ``target`` with what the options say about its inputs."""
    from tvm_sparse import frontends
    from tvm_sparse.base.targets import parse_target, programs_of
    from tvm_sparse.frontends.registry import front_end
    from tvm_sparse.frontends.traced_for import traced_for

    found = front_end(source)
    limits = {b.name: (b.low, b.high) for b in bounds or ()}
    given: dict[str, Any] = {"bounds": limits, "outputs": outputs, "constants": fixed}
    if found is not None and found.shaped is not None and shapes:
        if files:
            raise typer.BadParameter("give --shape or --input, not both")
        named = [s for s in shapes if s.name]
        if named and len(named) < len(shapes):
            raise typer.BadParameter("name all shapes, or none")
        by_name = {s.name: s.extents for s in named}  # of a file, which has no autocast
        return frontends.load(source, shapes=by_name or [s.extents for s in shapes], **given)
    examples = example_inputs(shapes, files)
    with traced_for(parse_target(programs_of(target)[0]).target):
        given |= {"weights": weights, "dynamic_batch": dynamic_batch}
        return frontends.load(source, examples, **given)


def example_inputs(shapes: list[InputShape] | None, files: list[Path] | None) -> Any:
    """Return the examples that ``--shape`` or ``--input`` describe, ``None`` without either.

    Values for a shape are random in [0, 1) if floating, zeros if not: only shape and dtype count.
    """
    if shapes and files:
        raise typer.BadParameter("give --shape or --input, not both")
    from tvm_sparse.frontends.modules.effective import to_tensor

    if files:
        return tuple(to_tensor(read_array(f)) for f in files)
    named = [s for s in shapes or () if s.name]
    if named and len(named) < len(shapes or ()):
        raise typer.BadParameter("name all shapes, or none")
    arrays = [to_tensor(random_array(_numbers(s), s.dtype)) for s in shapes or ()]
    if named:
        return {s.name: array for s, array in zip(named, arrays, strict=True)}
    return tuple(arrays) or None


def _numbers(shape: InputShape) -> tuple[int, ...]:
    names = [e for e in shape.extents if not isinstance(e, int)]
    if names:
        raise typer.BadParameter(f"'{names[0]}' stays open, which is for .onnx files")
    return tuple(int(e) for e in shape.extents)


def random_array(extents: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array of random values in [0, 1) if ``dtype`` is floating, of zeros if not."""
    if np.dtype(dtype).kind not in "fV":  # bfloat16 is none of NumPy's own
        return np.zeros(extents, dtype)
    return np.random.default_rng(0).random(extents, np.float32).astype(dtype)
