"""``tvm-sparse compile``: from a pruned model to an artifact directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tvm_sparse.cli import console, tables
from tvm_sparse.cli.options import (
    Debug,
    Examples,
    Json,
    Shapes,
    Source,
    Weights,
    example_inputs,
)
from tvm_sparse.extras import require

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Directory to write the artifact to."),
]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write an HTML page with all decisions and times."),
]


def compile_command(
    source: Source,
    *,
    output: Output = None,
    target: Annotated[str, typer.Option(help="Machine to compile for.")] = "cpu",
    shape: Shapes = None,
    input: Examples = None,
    weights: Weights = None,
    dynamic_batch: Annotated[
        bool, typer.Option("--dynamic-batch", help="Leave the first extent of the inputs open.")
    ] = False,
    measure: Annotated[
        bool,
        typer.Option(help="Time each layer sparse and dense, and keep the faster."),
    ] = True,
    cache: Annotated[
        bool,
        typer.Option(help="Use, and keep, what was measured and fitted on this machine before."),
    ] = True,
    database: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Tuning records to use; your own by default."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an artifact that exists.")
    ] = False,
    report: Page = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compile and decide, but write nothing.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile SOURCE and write an artifact that runs without torch and without the compiler."""
    if output is None and not dry_run:
        raise typer.BadParameter("missing; give a directory, or --dry-run", param_hint="--output")
    with console.errors(debug):
        if report is not None:
            require("report", "--report")
        import tvm_sparse as ts
        from tvm_sparse import frontends

        examples = example_inputs(shape, input)
        with console.progress() as progress:
            progress("importing", 0, 1)
            model = frontends.load(source, examples, weights=weights, dynamic_batch=dynamic_batch)
            progress("importing", 1, 1)
            library = ts.compile(
                model,
                target=target,
                config=ts.Config(measure=measure, cache=cache),
                database=database,
                progress=progress,
            )
        written = None
        if output is not None and not dry_run:
            library.export(output, force=force)
            written = str(output)
        if report is not None:
            from tvm_sparse.report.html import write

            write(library, report)
        _show(library, written, json)


def _show(library: Any, written: str | None, json: bool) -> None:
    decisions = list(library.decisions)
    if json:
        records = library.decisions.to_json()
        parts = library.decisions.parts
        found = {"artifact": written, "batch_parts": parts, "costs": library.decisions.costs}
        console.show_json({**found, "decisions": records})
        return
    console.show(tables.decision_table(decisions))
    if library.decisions.parts > 1:
        console.show(f"the batch goes through in {library.decisions.parts} parts; times are of one")
    if library.decisions.costs:
        console.show(f"costs of the models: {library.decisions.costs}")
    console.show(f"wrote {written}" if written else "dry run: nothing was written")
