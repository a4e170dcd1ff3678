"""``tvm-sparse prune``: zeros after a pattern, in the weights of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.array_files import read_array
from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, outputs, tables
from tvm_sparse.cli.options import (
    Debug,
    Factory,
    Force,
    Json,
    Weights,
    check_factory,
)
from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    from tvm_sparse.pruning.pruner import Pruner
    from tvm_sparse.pruning.recipe import Recipe

Output = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", help="A .safetensors file for the weights."),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option("--recipe", metavar="FILE", help="A recipe in YAML instead of a method."),
]
MethodName = Annotated[
    str, typer.Option(help="balanced, n_m, block, joint, unstructured, filters or deprune.")
]
Sparsity = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Fraction of zeros, where the method takes one."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another parameter of the method."),
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="GLOB", help="Layers to leave alone, by name.")
]
Calibration = Annotated[
    list[Path] | None,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help="A batch of inputs, a .npy file: masks and weights are fitted to what layers read.",
    ),
]


def prune_command(
    source: Factory,
    *,
    output: Output,
    weights: Weights = None,
    method: MethodName = "balanced",
    sparsity: Sparsity = None,
    option: Settings = None,
    ignore: Ignore = None,
    recipe: RecipeFile = None,
    calibration: Calibration = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Prune the model of SOURCE once and write its weights, zeros included.

    Without calibration data the smallest weights go. With some, each layer keeps what its outputs
    need most, and the rest is adapted. Pruning in steps takes a training loop: see docs/pruning.md.
    """
    if recipe and (sparsity is not None or option or ignore):
        raise typer.BadParameter("says all of it; leave the others out", param_hint="--recipe")
    with console.errors(debug):
        outputs.check_new_file(output, ".safetensors", force=force)
        check_factory(source)
        from tvm_sparse.frontends.files.safetensors import load_factory

        plan = _recipe(recipe, method, sparsity, option or [], ignore or [])
        model = load_factory(source, weights)
        pruner = _pruned(model, plan, calibration or [])
        _write(pruner.squash_mask(), output)
        _show(pruner, output, json)


def _recipe(
    file: Path | None, method: str, sparsity: float | None, options: list[str], ignore: list[str]
) -> Recipe:
    from tvm_sparse.pruning.recipe import load_recipe, parse_recipe
    from tvm_sparse.pruning.schedule import OneShot

    if file is None:
        content: dict[str, Any] = {"method": method, **values(options)}
        content |= {} if sparsity is None else {"sparsity": sparsity}
        content |= {"ignore": ignore} if ignore else {}
        return parse_recipe(content, "the options")
    found = load_recipe(file)
    if not isinstance(found.schedule, OneShot):
        raise InputError(
            f"{file}, schedule",
            "prunes in several steps, with training between them",
            "one_shot",
            "use the recipe in a training loop: Recipe.pruner",
        )
    return found


def values(options: list[str]) -> dict[str, Any]:
    """Read ``name=value``, with values as YAML has them."""
    import yaml

    found = {}
    for text in options:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"'{text}' is not like bank=16", param_hint="--set")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise typer.BadParameter(f"'{value}' is no value", param_hint="--set") from None
    return found


def _pruned(model: Any, plan: Recipe, calibration: list[Path]) -> Pruner:
    """Prune ``model`` by magnitude, or with calibration data by what outputs lose."""
    if not calibration:
        pruner = plan.pruner(model)
        pruner.step()
        return pruner
    import torch

    from tvm_sparse.pruning.one_shot import one_shot

    batches = [torch.from_numpy(read_array(path)) for path in calibration]
    with bars() as progress:
        return one_shot(
            model.eval(),
            batches,
            plan.method,
            include=plan.include,
            ignore=plan.ignore,
            progress=lambda _layer, done, layers, _left: progress("pruning", done, layers),
        )


def _write(model: Any, path: Path) -> None:
    from safetensors.torch import save_file

    # Tied weights share memory, which the format refuses: each name gets its own copy.
    tensors = {name: x.detach().clone().contiguous() for name, x in model.state_dict().items()}
    with outputs.whole(path) as temporary:
        save_file(tensors, temporary)


def _show(pruner: Pruner, path: Path, json: bool) -> None:
    report = pruner.report
    assert report is not None
    if json:
        console.show_json({"weights": str(path), **report.to_json()})
        return
    rows = [
        (r.name, "x".join(map(str, r.shape)), r.pattern, tables.percent(r.sparsity), r.note)
        for r in report.layers
    ]
    rows += [(name, "", "left out", "", reason) for name, reason in report.skipped.items()]
    console.show(tables.table(("layer", "weight", "pattern", "zeros", "note"), rows))
    console.show(f"{tables.percent(report.sparsity)} zeros in {len(report.layers)} layers")
    if report.note:
        console.show(report.note)
    console.show(f"wrote {path}")
