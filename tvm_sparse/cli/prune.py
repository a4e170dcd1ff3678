"""``tvm-sparse prune``: zeros after a pattern, in the weights of a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, outputs, tables
from tvm_sparse.cli.calibration import MaybeCalibration, arrays, tensors
from tvm_sparse.cli.options import (
    Debug,
    FileOrFactory,
    Force,
    InputShape,
    Json,
    Shapes,
    Weights,
    WeightsOutput,
    example_inputs,
    is_onnx,
)

if TYPE_CHECKING:
    from tvm_sparse.pruning.one_shot import Progress
    from tvm_sparse.pruning.pruner import Pruner
    from tvm_sparse.pruning.recipe import Recipe

RecipeFile = Annotated[
    Path | None,
    typer.Option("--recipe", metavar="FILE", help="A recipe in YAML instead of a method."),
]
MethodName = Annotated[
    str | None,
    typer.Option(help="balanced, n_m, block, joint, unstructured, filters or deprune. [balanced]"),
]
Likes = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Give each layer the blocks, banks or 2:4 that this machine's model is fastest with.",
    ),
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


def prune_command(
    source: FileOrFactory,
    *,
    output: WeightsOutput,
    weights: Weights = None,
    method: MethodName = None,
    sparsity: Sparsity = None,
    target: Likes = None,
    shape: Shapes = None,
    option: Settings = None,
    ignore: Ignore = None,
    recipe: RecipeFile = None,
    calibration: MaybeCalibration = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Prune the model of SOURCE once and write its weights, or its ONNX file, zeros included.

    Without calibration data the smallest weights go. With some, each layer keeps what its outputs
    need most, and the rest is adapted. Pruning in steps takes a training loop: see docs/pruning.md.
    With --target, and --shape for the inputs, the machine's cost model chooses the pattern of each
    layer, and leaves layers dense that gain nothing.
    """
    if target and (method or option or recipe or sparsity is None or not shape):
        raise typer.BadParameter(
            "takes --sparsity and --shape, and no method", param_hint="--target"
        )
    if recipe and (sparsity is not None or option or ignore):
        raise typer.BadParameter("says all of it; leave the others out", param_hint="--recipe")
    with console.errors(debug):
        file = is_onnx(source, weights)
        outputs.check_new_file(output, ".onnx" if file else ".safetensors", force=force)
        if target is None:
            plan = _recipe(recipe, method or "balanced", sparsity, option or [], ignore or [])
        else:
            plan = _suited(source, weights, (target, sparsity or 0.0), shape, tuple(ignore or ()))
        if file:
            pruner = _pruned_file(source, plan, calibration, output)
        else:
            from tvm_sparse.frontends.files.safetensors import load_factory

            pruner = _pruned(load_factory(source, weights), plan, calibration)
            outputs.write_weights(pruner.squash_mask(), output)
        _show(pruner, "model" if file else "weights", output, json)


def _recipe(
    file: Path | None, method: str, sparsity: float | None, options: list[str], ignore: list[str]
) -> Recipe:
    from tvm_sparse.pruning.recipe import load_recipe, parse_recipe

    if file is None:
        content: dict[str, Any] = {"method": method, **values(options)}
        content |= {} if sparsity is None else {"sparsity": sparsity}
        content |= {"ignore": ignore} if ignore else {}
        return parse_recipe(content, "--sparsity and --set")
    found = load_recipe(file)
    found.check_one_step(str(file))
    return found


def _suited(
    source: str,
    weights: Path | None,
    asked: tuple[str, float],
    shape: list[InputShape] | None,
    ignore: tuple[str, ...],
) -> Recipe:
    """Return the recipe that suits a target, which stands in ``asked`` before the sparsity."""
    from tvm_sparse.frontends.files.safetensors import load_factory
    from tvm_sparse.planning.suited import method_for
    from tvm_sparse.pruning.recipe import Recipe
    from tvm_sparse.pruning.schedule import OneShot

    target, sparsity = asked
    model = source if is_onnx(source, weights) else load_factory(source, weights).eval()
    with bars() as progress:
        method = method_for(
            model,
            example_inputs(shape, None),
            target=target,
            sparsity=sparsity,
            ignore=ignore,
            progress=progress,
        )
    return Recipe(method, OneShot(), ignore=ignore)


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


def _pruned_file(source: str, plan: Recipe, calibration: list[Path] | None, output: Path) -> Pruner:
    """Prune an ONNX file, as :func:`_pruned` does a module, and write ``output``."""
    from tvm_sparse.pruning.onnx_models.function import onnx

    if not calibration:
        return onnx(source, plan, output=output)
    with _bar() as progress:
        return onnx(source, plan, calibration=arrays(calibration), output=output, progress=progress)


def _pruned(model: Any, plan: Recipe, calibration: list[Path] | None) -> Pruner:
    """Prune ``model`` by magnitude, or with calibration data by what outputs lose."""
    if not calibration:
        pruner = plan.pruner(model)
        pruner.step()
        return pruner
    from tvm_sparse.pruning.one_shot import one_shot

    chosen: dict[str, Any] = {"include": plan.include, "ignore": plan.ignore}
    with _bar() as progress:
        return one_shot(
            model.eval(), tensors(calibration), plan.method, **chosen, progress=progress
        )


@contextlib.contextmanager
def _bar() -> Iterator[Progress]:
    """Yield what draws a bar of the layers that are done."""
    with bars() as progress:
        yield lambda _layer, done, layers, _left: progress("pruning", done, layers)


def _show(pruner: Pruner, what: str, path: Path, json: bool) -> None:
    report = pruner.report
    assert report is not None
    if json:
        console.show_json({what: str(path), **report.to_json()})
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
