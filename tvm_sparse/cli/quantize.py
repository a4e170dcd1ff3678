"""``tvm-sparse quantize``: a model in bytes, from calibration data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_sparse.base.array_files import read_array
from tvm_sparse.cli import console, outputs
from tvm_sparse.cli.options import (
    Debug,
    Factory,
    Force,
    Json,
    Weights,
    check_factory,
)
from tvm_sparse.errors import InputError

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="A .pt2 file for the program.")
]
Calibration = Annotated[
    list[Path],
    typer.Option("--calibration", metavar="FILE", help="A batch of inputs, a .npy file."),
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
    list[str] | None, typer.Option(metavar="NAME", help="A module that stays float.")
]

Tolerance = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        help="Leave layers float whose output bytes would change by more than this fraction.",
    ),
]


def quantize_command(
    source: Factory,
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
    """Quantise the layers of SOURCE and write a program that `compile` takes.

    Scales of static activations come from the calibration data. Pruned zeros stay zeros.
    """
    if recipe and activations:
        raise typer.BadParameter("says it; leave --activations out", param_hint="--recipe")
    with console.errors(debug):
        outputs.check_new_file(output, ".pt2", force=force)
        check_factory(source)
        import torch

        from tvm_sparse.frontends.files.safetensors import load_factory
        from tvm_sparse.frontends.program.left_float import LEFT_FLOAT
        from tvm_sparse.quantization import quantize

        mode = activations or (_activations(recipe) if recipe else "static")
        batches = [torch.from_numpy(read_array(path)) for path in calibration]
        program = quantize(
            load_factory(source, weights),
            batches,
            activations=mode,
            ignore=ignore or (),
            tolerance=tolerance,
        )
        left = program.graph_module.meta[LEFT_FLOAT]
        with outputs.whole(output) as temporary:
            torch.export.save(program, temporary)
        if json:
            found = {"program": str(output), "batches": len(batches), "left_float": left}
            console.show_json(found)
        else:
            for name, loss in left.items():
                console.show(f"{name} stays float: bytes would change its output by {loss:.1%}")
            console.show(f"wrote {output}")


def _activations(path: Path) -> str:
    """Return what a recipe says of activations; one for floats is refused."""
    from tvm_sparse.planning.networks import ACTIVATIONS
    from tvm_sparse.pruning.recipe import load_recipe

    numerics = load_recipe(path).numerics
    if numerics not in ACTIVATIONS:
        raise InputError(f"{path}, numerics", numerics, " or ".join(ACTIVATIONS))
    return ACTIVATIONS[numerics]
