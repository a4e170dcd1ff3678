"""``tvm-sparse inspect``: what is zero in a model, layer by layer."""

from __future__ import annotations

from typing import Annotated

import typer

from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console
from tvm_sparse.cli.options import Constants, Debug, Json, Outputs, Weights, constants


def inspect_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A .pt2, .onnx or .safetensors file, shards, or pkg.module:factory.",
        ),
    ],
    *,
    weights: Weights = None,
    outputs: Outputs = None,
    constant: Constants = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the sparsity pattern of each layer, with the evidence and near misses."""
    with console.errors(debug):
        import tvm_sparse as ts

        with bars() as progress:
            report = ts.inspect(
                source,
                weights=weights,
                outputs=outputs,
                constants=constants(constant),
                progress=progress,
            )
        if json:
            console.show_json(report.to_json())
        else:
            console.show(report)
