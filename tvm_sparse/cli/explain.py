"""``tvm-sparse explain``: why a pruned model is not faster, layer by layer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.made_inputs import told
from tvm_sparse.base.progress import bars
from tvm_sparse.cli import bench, console, tables
from tvm_sparse.cli.options import (
    Bounds,
    Debug,
    Examples,
    Json,
    Shapes,
    Source,
    Weights,
    load_model,
    use_threads,
)

if TYPE_CHECKING:
    from tvm_sparse.inspection.explain import Advice

COLUMNS = (
    "layer",
    "zeros",
    "found",
    "runs",
    "us",
    "nearest",
    "in the way",
    "then",
    "us then",
    "gain",
)

ROUNDS = 20
"""Turns of each program."""


def explain_command(
    source: Source,
    *,
    shape: Shapes = None,
    input: Examples = None,
    bound: Bounds = None,
    weights: Weights = None,
    target: Annotated[str, typer.Option(help="Machine to explain for.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads of every program.")] = 1,
    whole: Annotated[
        bool, typer.Option(help="Also time the whole beside dense int8 runtimes.")
    ] = True,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what stands between each layer and a faster kernel, and what that would gain.

    The model is compiled a second time without the weights in the way, to measure its layers so.
    What accuracy that costs is for you to find out: prune to the pattern, and train on. For another
    machine nothing is measured: what its model says stands in the reasons. For a GPU it also says
    what as many zeros would gain as blocks of 64 x 64 and 128 x 64, or as 2:4.
    """
    use_threads(threads)
    with console.errors(debug):
        import tvm_sparse as ts
        from tvm_sparse.base.targets import parse_target
        from tvm_sparse.comparison.places import place_of
        from tvm_sparse.inspection.explain import advise

        rows: list[bench.Row] = []
        missing: dict[str, str] = {}
        made_for = parse_target(target)
        with warnings.catch_warnings(), bars() as progress:
            warnings.simplefilter("ignore", ts.errors.WidenedBytesWarning)  # the text has it
            model = load_model(
                source, target=target, shapes=shape, files=input, weights=weights, bounds=bound
            )
            library = ts.compile(model, target=target, progress=progress)
            advice = advise(model, library, progress=progress)
            if whole and made_for.runs_here:
                place = place_of(made_for.target, made_for.runs_here, target)
                ours = bench.with_dense(library, model, progress)
                race = bench.Race(source, ours, weights, threads, place)
                (run,) = race.runs(input, None)
                rows, missing = bench.raced(race, run, ROUNDS, place.int8, progress)
        in_floats = list(library.decisions.in_floats.phrases())
        _show(advice, rows, missing, json, ranges=library.ranges, in_floats=in_floats)


def _show(
    advice: list[Advice],
    rows: list[bench.Row],
    missing: dict[str, str],
    json: bool,
    *,
    ranges: Sequence[str],
    in_floats: Sequence[str],
) -> None:
    if json:
        layers = [layer.to_json() for layer in advice]
        found: dict[str, Any] = {"layers": layers, "ranges": ranges, "in_floats": in_floats}
        console.show_json(found | {"whole": [asdict(row) for row in rows], "missing": missing})
        return
    console.show(tables.table(COLUMNS, [_cells(layer) for layer in advice]))
    for phrase in (*ranges, *in_floats):
        console.show(phrase)
    for layer in advice:
        console.show(f"{layer.layer}: {layer.chosen}, {layer.reason}")
        gains = ", ".join(f"{name} {gain:.2f}x" for name, gain in layer.regular.items())
        if gains:
            console.show(
                f"{layer.layer}: as many zeros over our dense kernel, by the model: {gains}"
            )
    for row in rows:
        times = f"{row.median_us:.1f} us, ours is {row.speedup:.2f}x its speed"
        where = f" {told(row.at)}" if row.at else ""
        console.show(f"the whole in {row.program}{where}: {times}")
    for name, reason in missing.items():
        console.show(f"not timed: {name}: {reason}")


def _cells(layer: Advice) -> tuple[str, ...]:
    near = layer.nearest
    return (
        layer.layer,
        tables.percent(layer.sparsity),
        layer.pattern,
        layer.chosen,
        tables.microseconds(layer.us),
        near.pattern if near else "",
        f"{near.in_the_way:,} of {near.nonzeros:,}" if near else "",
        near.chosen if near else "",
        tables.microseconds(near.us) if near else "",
        f"{layer.gain:.2f}x" if layer.gain else "",
    )
