"""``tvm-sparse inspect``: what is zero in a model, layer by layer."""

from __future__ import annotations

from tvm_sparse.cli import console
from tvm_sparse.cli.options import (
    Debug,
    Examples,
    Json,
    Shapes,
    Source,
    Weights,
    example_inputs,
)


def inspect_command(
    source: Source,
    *,
    shape: Shapes = None,
    input: Examples = None,
    weights: Weights = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the sparsity pattern of each layer, with the evidence and near misses."""
    with console.errors(debug):
        import tvm_sparse as ts
        from tvm_sparse import frontends

        examples = example_inputs(shape, input)
        report = ts.inspect(frontends.load(source, examples, weights=weights))
        if json:
            console.show_json(report.to_json())
        else:
            console.show(report)
