"""``tvm-sparse quantize``: a model in bytes, from calibration data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tvm_sparse.base.new_files import whole
from tvm_sparse.cli import console, outputs
from tvm_sparse.cli.calibration import Calibration, arrays, tensors
from tvm_sparse.cli.options import Debug, FileOrFactory, Force, Json, Weights, is_onnx
from tvm_sparse.errors import InputError

Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .pt2 file for the program, an .onnx file where SOURCE is one.",
    ),
]
Activations = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="static (by default), or dynamic: linear layers scale each row of their input.",
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option("--recipe", metavar="FILE", help="A plan, which says how activations get scales."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="A module, or a layer of an .onnx file, that stays float."),
]

Tolerance = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Leave layers float whose output bytes would change by more than this fraction.",
    ),
]

Left = dict[str, Any]
"""Why layers stay float, by name: a reason, or by how much bytes would change their output."""


def quantize_command(
    source: FileOrFactory,
    *,
    output: Output,
    calibration: Calibration,
    weights: Weights = None,
    activations: Activations = None,
    recipe: RecipeFile = None,
    ignore: Ignore = None,
    tolerance: Tolerance = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Quantize the layers of SOURCE and write a program, or an ONNX file, that `compile` takes.

    Scales of static activations come from the calibration data. Pruned zeros stay zeros.
    """
    if recipe and activations:
        raise typer.BadParameter("says it; leave --activations out", param_hint="--recipe")
    with console.errors(debug):
        file = is_onnx(source, weights)
        outputs.check_new_file(output, ".onnx" if file else ".pt2", force=force)
        options: dict[str, Any] = {
            "activations": activations or (_activations(recipe) if recipe else "static"),
            "ignore": ignore or (),
            "tolerance": tolerance,
        }
        quantize = _file if file else _program
        left = quantize(source, weights, calibration, output, options)
        if json:
            what = "model" if file else "program"
            found = {what: str(output), "batches": len(calibration), "left_float": left}
            console.show_json(found)
            return
        for name, reason in left.items():
            whole_reason = isinstance(reason, str)
            told = reason if whole_reason else f"bytes would change its output by {reason:.1%}"
            console.show(f"{name} stays float: {told}")
        console.show(f"wrote {output}")


def _file(
    source: str, _: Path | None, calibration: list[Path], output: Path, options: dict[str, Any]
) -> Left:
    """Quantize an ONNX file; return why layers stay float."""
    from tvm_sparse.quantization.onnx_models.function import quantize_onnx

    return dict(quantize_onnx(source, arrays(calibration), output=output, **options).left_float)


def _program(
    source: str,
    weights: Path | None,
    calibration: list[Path],
    output: Path,
    options: dict[str, Any],
) -> Left:
    """Quantize a module; return by how much bytes would change layers that stay float."""
    import torch

    from tvm_sparse.frontends.files.safetensors import load_factory
    from tvm_sparse.frontends.program.left_float import LEFT_FLOAT
    from tvm_sparse.quantization import quantize

    program = quantize(load_factory(source, weights), tensors(calibration), **options)
    with whole(output) as temporary:
        torch.export.save(program, temporary)
    return dict(program.graph_module.meta[LEFT_FLOAT])


def _activations(path: Path) -> str:
    """Return what a recipe says of activations; one for floats is refused."""
    from tvm_sparse.planning.networks import ACTIVATIONS
    from tvm_sparse.pruning.recipe import load_recipe

    numerics = load_recipe(path).numerics
    if numerics not in ACTIVATIONS:
        raise InputError(f"{path}, numerics", numerics, " or ".join(ACTIVATIONS))
    return ACTIVATIONS[numerics]
