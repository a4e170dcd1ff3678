"""``tvm-sparse bench``: the compiled model beside what a user could install instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.made_inputs import told
from tvm_sparse.base.progress import bars
from tvm_sparse.cli import console, outputs, tables
from tvm_sparse.cli.options import (
    Bounds,
    Debug,
    Examples,
    Json,
    Shapes,
    Sizes,
    Source,
    Weights,
    load_model,
    refuse_both,
    use_threads,
)
from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    from tvm_sparse.base.progress import ReportProgress
    from tvm_sparse.comparison.latency import Latency
    from tvm_sparse.comparison.own_runs import Run
    from tvm_sparse.comparison.places import Place
    from tvm_sparse.frontends.model import Model
    from tvm_sparse.program.library import Library

OURS, OURS_DENSE = "tvm-sparse", "tvm-sparse, all dense"


@dataclass(frozen=True)
class Row:
    """One program: microseconds of a call, relative error against the source, speed of ours.

    ``at`` are the open extents of its inputs.
    """

    program: str
    median_us: float
    p99_us: float
    error: float
    speedup: float
    at: dict[str, int]


def bench_command(
    source: Source,
    *,
    shape: Shapes = None,
    input: Examples = None,
    bound: Bounds = None,
    at: Sizes = None,
    weights: Weights = None,
    target: Annotated[
        str, typer.Option(help="cpu, or cuda: this machine's GPU, timed without the host.")
    ] = "cpu",
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

    On a GPU the others are PyTorch, torch.compile in the mode max-autotune with its CUDA graphs,
    and TensorRT (torch_tensorrt). Each call is a CUDA graph, or launched behind a sleep of the GPU:
    no time of the host is in the numbers. Caches are emptied before, and float32 is never TF32.
    """
    use_threads(threads)
    with console.errors(debug):
        outputs.check_file(picture)
        refuse_both(input, at)
        import tvm_sparse as ts
        from tvm_sparse.base.targets import parse_target
        from tvm_sparse.comparison.places import place_of

        resolved = parse_target(target)
        place = place_of(resolved.target, resolved.runs_here, target)
        if int8 and not place.int8:
            raise InputError("--int8", f"no runtime for '{target}' is asked in bytes", "a CPU")
        names = [name for name in place.runtimes if int8 or name not in place.int8]
        with bars() as progress:
            model = load_model(
                source, target=target, shapes=shape, files=input, weights=weights, bounds=bound
            )
            library = ts.compile(model, target=resolved.target, progress=progress)
            race = Race(source, with_dense(library, model, progress), weights, threads, place)
            rows: list[Row] = []
            missing: dict[str, str] = {}
            with place.exact():
                for run in race.runs(input, at):
                    timed, left_out = raced(race, run, rounds, names, progress)
                    rows += timed
                    missing |= left_out
        if picture is not None:
            from tvm_sparse.report import bars as chart

            drawn = chart.bars([(row.program, row.median_us) for row in rows], "us a call")
            picture.write_text(drawn, encoding="utf-8")
        facts = {"source": source, "target": target, "threads": threads}
        _show(rows, missing, facts, json)


@dataclass(frozen=True)
class Race:
    """A model as SOURCE, as our programs by name, and what else its programs are made of."""

    source: str
    ours: Mapping[str, Library]
    weights: Path | None
    threads: int
    place: Place

    def runs(
        self, files: Sequence[Path] | None, at: Sequence[Mapping[str, int]] | None
    ) -> list[Run]:
        """Return a run of the source for each set of sizes."""
        from tvm_sparse.comparison import own_runs, reference

        theirs = reference.reference(self.source, self.weights)
        sizes = at or (None,)
        return [own_runs.own_runs(self.ours[OURS], theirs, files, size)[0] for size in sizes]


def with_dense(
    library: Library, model: Model, progress: ReportProgress | None
) -> dict[str, Library]:
    """Return our programs: ``library``, and ``model``, of which it was made, all dense."""
    import tvm_sparse as ts

    config = ts.Config(sparse=False)
    dense = ts.compile(model, target=library.target, config=config, progress=progress)
    return {OURS: library, OURS_DENSE: dense}


def raced(
    of: Race, run: Run, rounds: int, names: Sequence[str], progress: ReportProgress | None
) -> tuple[list[Row], dict[str, str]]:
    """Return rows of our programs and of the runtimes ``names`` on one run, the fastest first.

    With them, the reason for each program that has none.
    """
    from tvm_sparse.comparison import programs, reference, runtimes

    place, given = of.place, of.place.put(run.inputs)
    mine = {name: place.ours(partial(library.run, *given)) for name, library in of.ours.items()}
    case = runtimes.case(of.source, run.inputs, of.threads, of.weights)
    with runtimes.programs(case, names, place.runtimes) as (others, left_out):
        everyone, missing = mine | others, dict(left_out)
        found = {name: reference.arrays(program()) for name, program in everyone.items()}
        errors = {
            name: reference.largest_error(found[name], run.outputs, programs.LEAST)
            for name in everyone
        }
        exact, most = errors.keys() - {*place.int8}, programs.tolerance(run.inputs)
        wrong = {n for n in exact if not errors[n] <= most}
        if OURS in wrong:
            raise InputError(of.source, f"is computed wrongly (error {errors[OURS]:.2g})", "a bug")
        missing |= {n: f"other outputs (error {errors[n]:.2g}): not timed" for n in wrong}
        right = {n: p for n, p in everyone.items() if n not in wrong}
        times, late = place.times(right, rounds, progress)
    if OURS in late:
        raise InputError(of.source, late[OURS], "a host that is idle", "close other programs")
    return _rows(times, errors, run.extents), missing | late


def _rows(
    times: dict[str, Latency], errors: dict[str, float], extents: dict[str, int]
) -> list[Row]:
    ours = times[OURS].median_us
    rows = [
        Row(name, t.median_us, t.p99_us, errors[name], t.median_us / ours, extents)
        for name, t in times.items()
    ]
    return sorted(rows, key=lambda row: row.median_us)


def _show(rows: list[Row], missing: dict[str, str], facts: dict[str, Any], json: bool) -> None:
    if json:
        console.show_json({**facts, "rows": [asdict(row) for row in rows], "missing": missing})
        return
    for at, group in groupby(rows, lambda row: row.at):
        _show_group([*group], told(at))
    for name, reason in missing.items():
        console.show(f"not timed: {name}: {reason}")
    for at, group in groupby(rows, lambda row: row.at):
        others = [row for row in group if row.program not in (OURS, OURS_DENSE)]
        if others:
            best, where = others[0], f" {told(at)}" if at else ""
            faster = f"{best.speedup:.2f}x the speed of the fastest other ({best.program})"
            console.show(faster + where)


def _show_group(rows: list[Row], title: str) -> None:
    cells = [
        (r.program, f"{r.median_us:.1f}", f"{r.p99_us:.1f}", f"{r.error:.1e}", f"{r.speedup:.2f}x")
        for r in rows
    ]
    if title:
        console.show(f"{title}:")
    console.show(tables.table(("program", "median us", "p99 us", "error", "ours over it"), cells))
