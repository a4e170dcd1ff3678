"""``tvm-sparse plan``: a recipe from a budget."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.new_files import whole
from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, outputs, tables
from tvm_sparse.cli.calibration import Calibration, arrays, tensors
from tvm_sparse.cli.options import (
    Debug,
    FileOrFactory,
    Force,
    Json,
    Shapes,
    Weights,
    example_inputs,
    is_onnx,
)
from tvm_sparse.cli.prune import Ignore, Settings, values

if TYPE_CHECKING:
    from tvm_sparse.planning.plan import Plan

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="A .json file for the recipe.")
]
Speedup = Annotated[
    float | None, typer.Option(help="Budget: times as fast as the dense network in float32.")
]
Latency = Annotated[float | None, typer.Option(help="Budget: milliseconds of a call.")]
Bytes = Annotated[float | None, typer.Option(help="Budget: bytes of packed weights.")]
Zeros = Annotated[
    float | None, typer.Option(help="Budget: fraction of zeros over all layers that are planned.")
]
Drop = Annotated[
    float | None,
    typer.Option(help="Budget: one minus the cosine of the outputs, in the least time."),
]
Method = Annotated[
    list[str] | None,
    typer.Option(help="balanced, n_m, block, joint or unstructured; once for each. [balanced]"),
]
Levels = Annotated[
    list[float] | None,
    typer.Option(
        "--level", metavar="X", help="Fraction of zeros that a layer may have; once for each."
    ),
]
Numerics = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE",
        help="float32, bfloat16, int8 or int8-dynamic; once for each that is allowed. [float32]",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Draw plans beside one level everywhere, an .svg file."),
]


def plan_command(
    source: FileOrFactory,
    *,
    output: Output,
    calibration: Calibration,
    speedup: Speedup = None,
    latency_ms: Latency = None,
    bytes: Bytes = None,
    sparsity: Zeros = None,
    max_drop: Drop = None,
    weights: Weights = None,
    shape: Shapes = None,
    method: Method = None,
    option: Settings = None,
    level: Levels = None,
    numerics: Numerics = None,
    ignore: Ignore = None,
    target: Annotated[str, typer.Option(help="Machine to plan for.")] = "cpu",
    cache: Annotated[
        bool, typer.Option(help="Use, and keep, tables and times of this machine.")
    ] = True,
    trials: Annotated[int, typer.Option(min=0, help="Networks that the search tries.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    picture: Picture = None,
    force: Force = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Choose a level for each layer of SOURCE within a budget and write the recipe.

    Layers are timed on this machine, dense and at each level, and pruned on the calibration data to
    see what they lose. `prune --recipe` takes the result. Times are for the shapes of `--shape`, or
    of the first batch. Another budget takes seconds.
    """
    with console.errors(debug):
        outputs.check_new_file(output, ".json", force=force)
        outputs.check_file(picture)
        file = is_onnx(source, weights)
        from tvm_sparse.base.config import Config
        from tvm_sparse.frontends.files.safetensors import load_factory
        from tvm_sparse.planning.api import LEVELS, plan
        from tvm_sparse.planning.budget import Budget

        budget: dict[str, Any] = {"speedup": speedup, "latency_ms": latency_ms, "bytes": bytes}
        budget |= {"sparsity": sparsity, "max_drop": max_drop}
        Budget.of(**budget)
        methods = _methods(method or ["balanced"], option or [])
        model = source if file else load_factory(source, weights).eval()
        batches = arrays(calibration) if file else tensors(calibration)
        with bars() as progress:
            found = plan(
                model,
                batches,
                **budget,
                example_inputs=example_inputs(shape, None),
                methods=methods,
                levels=level or LEVELS,
                numerics=numerics or ("float32",),  # type: ignore[arg-type]
                ignore=ignore or (),
                target=target,
                config=Config(cache=cache),
                trials=trials,
                seed=seed,
                progress=progress,
            )
        _write(found, output)
        if picture is not None:
            found.pareto().save(picture)
        _show(found, output, json)


def _methods(names: list[str], options: list[str]) -> list[Any]:
    """Return the methods that ``names`` say, with the parameters that they know of ``options``."""
    from tvm_sparse.pruning.recipe import parse_recipe

    settings = values(options)
    found = []
    for name in names:
        level = {} if name == "n_m" or "sparsity" in settings else {"sparsity": 0.5}
        found.append(parse_recipe({"method": name, **level, **settings}, "the options").method)
    return found


def _write(found: Plan, path: Path) -> None:
    with whole(path) as temporary:
        text = json_module.dumps(found.to_json(), indent=1) + "\n"
        temporary.write_text(text, encoding="utf-8")


def _show(found: Plan, path: Path, json: bool) -> None:
    pareto = found.pareto()
    if json:
        content = found.to_json()["plan"]
        del content["tables"]
        console.show_json({"recipe": str(path), **content, "pareto": pareto.to_json()})
        return
    rows = [
        (r.layer, r.candidate, tables.microseconds(r.dense_us), tables.microseconds(r.us), r.reason)
        for r in found.layers
    ]
    console.show(tables.table(("layer", "becomes", "dense us", "us", "why not another"), rows))
    beside = [
        (f"{r.label}, {r.numerics}", f"{r.latency_ms:.3f}", f"{r.uniform:.4f}", f"{r.planned:.4f}")
        for r in pareto.rows
    ]
    console.show(tables.table(("one level everywhere", "ms", "its drop", "a plan's"), beside))
    console.show(found.verdict())
    console.show(f"wrote {path}")
