"""``tvm-sparse tune``: search for better schedules, and look after the records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_sparse.base.extras import require
from tvm_sparse.cli import console
from tvm_sparse.cli.options import (
    Bounds,
    Debug,
    Examples,
    Json,
    Shapes,
    Weights,
    load_model,
)
from tvm_sparse.cli.tuning_view import best_table, report_table, watch
from tvm_sparse.errors import InputError

if TYPE_CHECKING:
    from tvm_sparse.tuning.report import TuningReport
    from tvm_sparse.tuning.tuner import Settings


Source = Annotated[
    str | None,
    typer.Argument(metavar="SOURCE", help="A .pt2 or .onnx file, or pkg.module:factory."),
]
Trials = Annotated[
    int, typer.Option(min=1, help="Schedules to measure, those of earlier sessions included.")
]
Records = Annotated[
    Path | None,
    typer.Option(
        "--database", "-d", metavar="DIR", help="Where the records are; your own by default."
    ),
]
TargetName = Annotated[str, typer.Option(help="Machine to tune for.")]
Slowest = Annotated[
    int | None, typer.Option(min=1, help="Tune only this many functions, the slowest.")
]
PerTask = Annotated[int | None, typer.Option(min=1, help="Most trials of one function.")]
Formats = Annotated[
    bool, typer.Option("--formats", help="Tune near other formats of each layer, too.")
]
Storages = Annotated[bool, typer.Option("--storages", hidden=True)]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Measure the best of earlier sessions again, too.")
]
TrackerAddress = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A TVM RPC tracker: measure on its machines."),
]
TrackerKey = Annotated[str | None, typer.Option(help="Key of the machines at the tracker.")]
Merge = Annotated[
    list[Path] | None,
    typer.Option(metavar="DATABASE", help="Take another database's records into this one."),
]
Best = Annotated[bool, typer.Option("--best", help="List the best record of each function.")]
Export = Annotated[
    Path | None, typer.Option(metavar="FILE.jsonl", help="Write the best records to a file.")
]
By = Annotated[
    str, typer.Option(help="'model': times for a GPU that is not here, modelled from counts.")
]
ReportFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Write a page with all learning curves."),
]


def tune_command(
    source: Source = None,
    *,
    trials: Trials = 512,
    database: Records = None,
    target: TargetName = "cpu",
    shape: Shapes = None,
    input: Examples = None,
    bound: Bounds = None,
    weights: Weights = None,
    slowest: Slowest = None,
    per_task: PerTask = None,
    formats: Formats = False,
    storages: Storages = False,
    confirm: Confirm = False,
    tracker: TrackerAddress = None,
    key: TrackerKey = None,
    by: By = "measurement",
    merge: Merge = None,
    best: Best = False,
    export: Export = None,
    report: ReportFile = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Tune the operators of SOURCE and record what was measured; compile reads the records.

    The default schedules are the first trials, so nothing gets slower. Ctrl-C ends after the
    current step; the same command goes on from there.
    """
    if source is None and not (merge or best or export):
        raise typer.BadParameter("missing; or --merge, --best, --export", param_hint="SOURCE")
    if storages:
        console.note("--storages is called --formats now; this name will go")
    result: dict[str, object] = {}
    with console.errors(debug):
        if report is not None:
            require("report", "--report")
        from tvm_sparse.tuning.database import default_path

        path = database or default_path()
        found = None
        if source is not None:
            from tvm_sparse.tuning.tuner import Settings

            model = load_model(
                source, target=target, shapes=shape, files=input, weights=weights, bounds=bound
            )
            settings = Settings(slowest=slowest, per_task=per_task, reconfirm=confirm)
            place = {"database": path, "target": target, "tracker": tracker, "key": key}
            place["by"] = by
            found = _tune(
                model, settings, {"trials": trials, "formats": formats or storages, **place}
            )
            result |= _show(found, json, report, source)
        if merge or best or export:
            result |= _chores(path, merge or [], best, export, json)
        if json:
            console.show_json(result)
    if found is not None and found.interrupted:
        console.note("interrupted; the same command goes on from here")
        raise typer.Exit(console.INTERRUPTED)


def _tune(model: Any, settings: Settings, options: dict[str, Any]) -> TuningReport:
    import tvm_sparse as ts

    with watch() as progress:
        return ts.tune(model, settings=settings, progress=progress, **options)


def _show(report: TuningReport, json: bool, page: Path | None, source: str) -> dict[str, object]:
    """Show what a session found, write its page, and return it."""
    if report.source == "modelled":
        console.note("all times are modelled, none was measured")
    for name, reason in report.skipped.items():
        console.note(f"not tuned: {name}: {reason}")
    if report.broken_lines:
        console.note(f"{report.broken_lines} lines of the database are not records: skipped")
    if page is not None:
        from tvm_sparse.report.tuning import write

        write(report, page, f"Tuning of {source}")
    if not json:
        console.show(report_table(report))
        total = f"{report.default_us / 1e3:.3f} ms by default, {report.best_us / 1e3:.3f} ms tuned"
        console.show(f"all calls of these functions: {total}; records in {report.database}")
    return report.to_json()


def _chores(
    path: Path, merge: list[Path], best: bool, export: Path | None, json: bool
) -> dict[str, object]:
    """Merge, list and export; return what was done."""
    from tvm_sparse.tuning.database import Database

    database = Database(path)
    done: dict[str, object] = {}
    if merge:
        others = [Database(_existing(path)) for path in merge]
        done["merged"] = database.merge(record for other in others for record in other)
        console.note(f"{done['merged']} new records in {database.path}")
    bests = database.bests()
    if best:
        done["best"] = [record.model_dump(mode="json", exclude_none=True) for record in bests]
        if not json:
            console.show(best_table(bests))
    if export is not None:
        done["exported"] = Database(export).merge(bests)
        console.note(f"{done['exported']} new records in {Database(export).path}")
    return done


def _existing(path: Path) -> Path:
    if not path.exists():
        raise InputError(f"database '{path}'", "no such file or directory")
    return path
