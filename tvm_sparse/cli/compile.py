"""``tvm-sparse compile``: from a pruned model to an artifact directory."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tvm_sparse.base.extras import require
from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, tables
from tvm_sparse.cli.options import (
    Bounds,
    Constants,
    Debug,
    Examples,
    Json,
    Outputs,
    Shapes,
    Sizes,
    Source,
    Weights,
    constants,
    example_inputs,
    load_model,
    refuse_both,
)
from tvm_sparse.cli.outputs import check_file

if TYPE_CHECKING:
    from tvm_sparse.comparison.beside import Beside
    from tvm_sparse.planning.check import Check
    from tvm_sparse.planning.plan import Plan

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="Directory to write the artifact to."),
]
Sign = Annotated[
    Path | None,
    typer.Option(metavar="KEY.pem", help="Private Ed25519 key to sign the artifact with."),
]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write an HTML page with all decisions and times."),
]

Promise = Annotated[
    Path | None,
    typer.Option(
        "--plan", metavar="FILE", help="A plan of this network: say whether its promise is kept."
    ),
]


def compile_command(
    source: Source,
    *,
    output: Output = None,
    target: Annotated[str, typer.Option(help="Machine to compile for.")] = "cpu",
    shape: Shapes = None,
    input: Examples = None,
    bound: Bounds = None,
    weights: Weights = None,
    outputs: Outputs = None,
    constant: Constants = None,
    dynamic_batch: Annotated[
        bool, typer.Option("--dynamic-batch", help="Leave the first extent of the inputs open.")
    ] = False,
    precision: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            help="bfloat16 rounds what layers multiply, where the CPU has instructions for it.",
        ),
    ] = "float32",
    measure: Annotated[
        bool,
        typer.Option(help="Time each layer sparse and dense, and keep the faster."),
    ] = True,
    cache: Annotated[
        bool,
        typer.Option(help="Use, and keep, what was measured and fitted on this machine before."),
    ] = True,
    libraries: Annotated[
        bool,
        typer.Option(help="On GPUs, let NVIDIA's libraries compute layers where they are faster."),
    ] = True,
    database: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Tuning records to use; your own by default."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an artifact that exists.")
    ] = False,
    sign: Sign = None,
    refreshable: Annotated[
        bool, typer.Option("--refreshable", help="Keep the graph for `tvm-sparse refresh`.")
    ] = False,
    report: Page = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compile and decide, but write nothing.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Run the source beside the result, and compare both.")
    ] = False,
    at: Sizes = None,
    plan: Promise = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile SOURCE and write an artifact that runs without torch and without the compiler.

    Ends with a verdict: how many layers run sparse, what that gains over their dense kernels, how
    large the weights are, and with --check the largest error and the speed against the source.
    """
    if output is None and not dry_run:
        raise typer.BadParameter("missing; give a directory, or --dry-run", param_hint="--output")
    with console.errors(debug):
        import tvm_sparse as ts

        refuse_both(input, at)
        if at and not check:
            raise typer.BadParameter("says sizes for --check", param_hint="--at")
        _look_first(output if not dry_run else None, report, force)
        rounds = precision != ts.Config.precision
        _refuse_ignored(source, shape, input, check or rounds)
        fixed = constants(constant)
        promise = _promise(plan)
        with warnings.catch_warnings(), bars() as progress:
            for told in (ts.errors.SlowKernelWarning, ts.errors.WidenedBytesWarning):
                warnings.simplefilter("ignore", told)  # the summary has it
            progress("importing", 0, 1)
            model = load_model(
                source,
                target=target,
                shapes=shape,
                files=input,
                weights=weights,
                dynamic_batch=dynamic_batch,
                bounds=bound,
                outputs=outputs,
                fixed=fixed,
            )
            progress("importing", 1, 1)
            library = ts.compile(
                model,
                example_inputs(None, input),
                target=target,
                config=ts.Config(
                    precision=cast("Any", precision),
                    measure=measure,
                    cache=cache,
                    libraries=libraries,
                    refreshable=refreshable,
                ),
                database=database,
                progress=progress,
            )
        checked = None
        if check:
            from tvm_sparse.comparison.beside import beside_source
            from tvm_sparse.frontends.files.part import part_of

            checked = beside_source(
                library, source, input, weights, part=part_of(outputs, fixed), at=at
            )
        written = None
        if output is not None and not dry_run:
            library.export(output, force=force, sign=sign)
            written = str(output)
        if report is not None:
            from tvm_sparse.report.html import write

            write(library, report)
        _show(library, written, checked, json, promise.check(library) if promise else None)


def _look_first(output: Path | None, report: Path | None, force: bool) -> None:
    """Refuse places that could not be written to when the work is done."""
    from tvm_sparse.artifact.export import check_place

    if report is not None:
        require("report", "--report")
        check_file(report)
    if output is not None:
        check_place(output.absolute(), force)


def _promise(file: Path | None) -> Plan | None:
    """Return the plan in ``file``, before the work."""
    if file is None:
        return None
    from tvm_sparse.planning.plan import Plan

    return Plan.load(file)


def _refuse_ignored(source: str, shape: Any, files: list[Path] | None, check: bool) -> None:
    """Refuse shapes for a source that has its own, and inputs that nothing would read."""
    from tvm_sparse.errors import InputError
    from tvm_sparse.frontends.registry import front_end

    found = front_end(source)
    if found is None or found.weights or found.shaped:  # its model takes other shapes
        return
    if shape:
        raise InputError(
            "--shape", f"given for '{source}', which has its own", "none", "leave it out"
        )
    if files and not check:
        raise InputError(
            "--input", f"given for '{source}', which needs none", "none", "leave it out"
        )


def _show(
    library: Any, written: str | None, checked: Beside | None, json: bool, promise: Check | None
) -> None:
    from tvm_sparse.base.targets import spelled

    programs = (library, *library.alternatives)
    if json:
        records = library.decisions.to_json()
        parts = library.decisions.parts
        found = {"artifact": written, "batch_parts": parts, "costs": library.decisions.costs}
        found |= {"verdict": library.verdict(), "slow": library.slow, "ranges": library.ranges}
        found |= {
            "alternatives": [
                {"target": spelled(other.target), "verdict": other.verdict()}
                | {"decisions": other.decisions.to_json()}
                for other in library.alternatives
            ]
        }
        rounding = library.decisions.rounding
        found |= {"rounding": rounding and asdict(rounding), "check": checked and asdict(checked)}
        if promise is not None:
            found |= {"promise": {**asdict(promise), "off": promise.off, "kept": promise.kept}}
        console.show_json({**found, "decisions": records})
        return
    for one in programs:
        title = spelled(one.target) if library.alternatives else ""
        console.show(tables.decision_table(one.decisions, title))
    if (parts := library.decisions.parts) != 1:
        way = f"in {parts} parts; times are of one" if parts else "item by item; times are of one"
        console.show(f"the batch goes through {way}")
    if library.decisions.costs:
        console.show(f"costs of the models: {library.decisions.costs}")
    console.show(library.verdict() + (f"; {checked}" if checked else ""))
    for other in library.alternatives:
        console.show(f"{spelled(other.target)}: {other.verdict()}")
    if promise is not None:
        console.show(f"plan: {promise}")
    if written is not None and library.alternatives:
        from tvm_sparse_runtime import programs as in_words
        from tvm_sparse_runtime import verification

        for line in in_words.lines(verification.read_manifest(Path(written))):
            console.show(line)
    console.show(f"wrote {written}" if written else "dry run: nothing was written")
