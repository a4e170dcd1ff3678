"""``tvm-sparse bench``: the compiled model beside what a user could install instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, outputs, tables
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
from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from tvm_sparse.base.progress import ReportProgress
    from tvm_sparse.comparison.latency import Latency
    from tvm_sparse.frontends.model import Model
    from tvm_sparse.program.library import Library

OURS, OURS_DENSE = "tvm-sparse", "tvm-sparse, all dense"


@dataclass(frozen=True)
class Row:
    """One program: microseconds of a call, relative error against the source, speed of ours."""

    program: str
    median_us: float
    p99_us: float
    error: float
    speedup: float


def bench_command(
    source: Source,
    *,
    shape: Shapes = None,
    input: Examples = None,
    bound: Bounds = None,
    weights: Weights = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of every program.")] = 1,
    rounds: Annotated[int, typer.Option(min=2, help="Turns of each program.")] = 20,
    int8: Annotated[
        bool, typer.Option("--int8", help="Also dense int8 of onnxruntime and OpenVINO.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw the times as bars.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile SOURCE, verify it, and time it in turns with the dense runtimes that are installed.

    Programs whose outputs differ from the source's are not timed. Int8 programs round, and are
    calibrated on the inputs given here alone: their error is shown, and says little about accuracy.
    """
    use_threads(threads)
    with console.errors(debug):
        outputs.check_file(picture)
        import tvm_sparse as ts
        from tvm_sparse.comparison import programs, runtimes

        names = (*runtimes.FLOAT, *(runtimes.INT8 if int8 else ()))
        with bars() as progress:
            model = load_model(source, shapes=shape, files=input, weights=weights, bounds=bound)
            library = ts.compile(model, progress=progress)
            race = Race(source, model, library, programs.inputs_for(model, input), weights, threads)
            rows, missing = raced(race, rounds, names, progress)
        if picture is not None:
            from tvm_sparse.report import bars as chart

            drawn = chart.bars([(row.program, row.median_us) for row in rows], "us a call")
            picture.write_text(drawn, encoding="utf-8")
        _show(rows, missing, {"source": source, "threads": threads}, json)


@dataclass(frozen=True)
class Race:
    """A model as SOURCE and as a library, with inputs and what else its programs are made of."""

    source: str
    model: Model
    library: Library
    inputs: Sequence[np.ndarray]
    weights: Path | None
    threads: int


def raced(
    of: Race, rounds: int, names: Sequence[str], progress: ReportProgress | None
) -> tuple[list[Row], dict[str, str]]:
    """Return rows of our programs and of the runtimes ``names``, the fastest first.

    With them, the reason for each program that has none.
    """
    import tvm_sparse as ts
    from tvm_sparse.comparison import programs, reference, runtimes
    from tvm_sparse.comparison.latency import calls_a_turn, race

    dense = ts.compile(of.model, config=ts.Config(sparse=False), progress=progress)
    ours = {OURS: of.library, OURS_DENSE: dense}
    mine = {name: partial(programs.call, library, of.inputs) for name, library in ours.items()}
    wanted = reference.reference(of.source, of.inputs, of.weights)()
    case = runtimes.case(of.source, of.inputs, of.threads, of.weights)
    with runtimes.programs(case, names) as (others, left_out):
        everyone, missing = mine | others, dict(left_out)
        errors = {n: reference.largest_error(p(), wanted) for n, p in everyone.items()}
        exact = errors.keys() - {*runtimes.INT8}
        wrong = {n for n in exact if not errors[n] <= programs.TOLERANCE}
        if OURS in wrong:
            raise InputError(of.source, f"is computed wrongly (error {errors[OURS]:.2g})", "a bug")
        missing |= {n: f"other outputs (error {errors[n]:.2g}): not timed" for n in wrong}
        right = {n: p for n, p in everyone.items() if n not in wrong}
        times = race(right, rounds, calls_a_turn(right[OURS]), progress)
    return _rows(times, errors), missing


def _rows(times: dict[str, Latency], errors: dict[str, float]) -> list[Row]:
    ours = times[OURS].median_us
    rows = [
        Row(name, t.median_us, t.p99_us, errors[name], t.median_us / ours)
        for name, t in times.items()
    ]
    return sorted(rows, key=lambda row: row.median_us)


def _show(rows: list[Row], missing: dict[str, str], facts: dict[str, Any], json: bool) -> None:
    if json:
        console.show_json({**facts, "rows": [asdict(row) for row in rows], "missing": missing})
        return
    cells = [
        (r.program, f"{r.median_us:.1f}", f"{r.p99_us:.1f}", f"{r.error:.1e}", f"{r.speedup:.2f}x")
        for r in rows
    ]
    console.show(tables.table(("program", "median us", "p99 us", "error", "ours over it"), cells))
    for name, reason in missing.items():
        console.show(f"not timed: {name}: {reason}")
    others = [row for row in rows if row.program not in (OURS, OURS_DENSE)]
    if others:
        best = others[0]
        console.show(f"{best.speedup:.2f}x the speed of the fastest other ({best.program})")
