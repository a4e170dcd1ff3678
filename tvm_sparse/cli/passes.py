"""``tvm-sparse passes``: a model behind the passes that are named, to see what they do."""

from __future__ import annotations

from typing import Annotated

import typer

from tvm_sparse.cli import console
from tvm_sparse.cli.options import (
    Bounds,
    Constants,
    Debug,
    Outputs,
    Shapes,
    Source,
    Weights,
    constants,
    load_model,
)

Names = Annotated[
    str | None,
    typer.Option(
        "--passes", metavar="NAMES", help="Run these, with commas between; by default all."
    ),
]
Without = Annotated[str, typer.Option(metavar="NAMES", help="Leave these out.")]


def passes_command(
    source: Source,
    *,
    passes: Names = None,
    without: Without = "",
    target: Annotated[str, typer.Option(help="Machine to compile for.")] = "cpu",
    shape: Shapes = None,
    bound: Bounds = None,
    weights: Weights = None,
    outputs: Outputs = None,
    constant: Constants = None,
    debug: Debug = False,
) -> None:
    """Print the Relax module of SOURCE behind some passes of the compiler, or all of them.

    For debugging: what a pass does, and which one is to blame. The page "Passes" names them; one
    that is named twice runs twice. Layers are chosen by the cost models. TVM_SPARSE_DUMP writes the
    module behind each pass of a compilation.
    """
    with console.errors(debug):
        from tvm_sparse.base.config import Config
        from tvm_sparse.base.targets import parse_target
        from tvm_sparse.program.relax_pipeline import chosen, passed, steps_of

        named = None if passes is None else _names(passes)
        resolved, config = parse_target(target).target, Config(measure=False)
        chosen(steps_of(resolved, config), named, _names(without))
        model = load_model(
            source,
            target=target,
            shapes=shape,
            files=None,
            weights=weights,
            dynamic_batch=False,
            bounds=bound,
            outputs=outputs,
            fixed=constants(constant),
        )
        steps = steps_of(resolved, config, model.weights, len(model.inputs))
        module = passed(model, chosen(steps, named, _names(without)), resolved)
        typer.echo(module.script())


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
