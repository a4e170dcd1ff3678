"""``ts.tune``: search for better schedules of a model's operators and keep what is found."""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import tvm
from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.base.extras import require
from tvm_sparse.base.targets import ResolvedTarget, parse_target
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.load import load
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.traced_for import traced_for
from tvm_sparse.passes import pipeline
from tvm_sparse.schedules.build import build_context
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse.tuning.database import Database, default_path
from tvm_sparse.tuning.formats import RememberingChooser, cut_tasks, format_tasks
from tvm_sparse.tuning.interrupt import stop_on_interrupt
from tvm_sparse.tuning.measurer import LocalMeasurer, Measurer
from tvm_sparse.tuning.recorded import recorded_rules, shipped
from tvm_sparse.tuning.report import TuningReport, report_of
from tvm_sparse.tuning.state import TuningSession
from tvm_sparse.tuning.tasks import Task, extract
from tvm_sparse.tuning.tuner import Settings, Tuner

By = Literal["measurement", "model"]


def tune(
    model: Any,
    example_inputs: Any = None,
    *,
    target: str | Target = "cpu",
    trials: int = 512,
    database: str | Path | None = None,
    config: Config | None = None,
    settings: Settings | None = None,
    tracker: str | None = None,
    key: str | None = None,
    by: By = "measurement",
    formats: bool = False,
    storages: bool = False,
    progress: Callable[[TuningSession], None] = lambda session: None,
) -> TuningReport:
    """Tune the operators of ``model`` and append what was measured to ``database``.

    The default schedule of each operator is the first trial, and a record counts only if it beats
    it, so a model never gets slower. Everything measured is kept, whether the session ends, is
    killed, or Ctrl-C stops it after the current step; the next call goes on from there.

    Parameters
    ----------
    model, example_inputs, target, config
        As for :func:`tvm_sparse.compile`.
    trials
        Schedules to measure, those in the database included.
    database
        Directory or ``.jsonl`` file; by default the user's own, which ``compile`` reads, too.
    settings
        Finer choices; its ``trials`` give way to ``trials``.
    tracker, key
        ``host:port`` of a TVM RPC tracker, and the key of the machines there to measure on.
    by
        ``"model"``: times for a GPU that is not here. Kernels are executed on this CPU under a
        sanitizer, and what they do is counted; a model of the chip makes times of the counts. The
        records are marked ``modelled``. ``compile`` takes them where nothing was measured, and a
        session with a GPU measures them first.
    formats
        Tune the other formats that come near to the one of each layer, too; then ``compile``
        chooses among tuned ones.
    storages
        The old name of ``formats``, which will go.
    progress
        Called at every step with the session.

    Raises
    ------
    InputError
        The model cannot be imported, the target does not run here and there is no tracker, or
        there is no model of the target.
    """
    require("tune", "tune")
    if storages:
        told = "tune(storages=...) is called tune(formats=...) now; this name will go"
        warnings.warn(told, FutureWarning, stacklevel=2)
    resolved = _measurable(target, tracker, by)
    with traced_for(resolved.target):
        source = load(model, example_inputs)
    records = Database(default_path() if database is None else database)
    skipped: dict[str, str] = {}
    config = config or Config()
    recorded = recorded_rules(resolved.target, records) if config.tuned else ()
    tasks = tasks_of(source, resolved, config, recorded, skipped, formats=formats or storages)
    wanted = replace(settings or Settings(), trials=trials)
    with stop_on_interrupt() as stop, _measurer(resolved, tracker, key, by) as measurer:
        hints = shipped(resolved.target)
        tuner = Tuner(measurer, records, wanted, progress, stop, hints=hints)
        tuner.session.skipped.update(skipped)
        return _run(tuner, tasks)


def _run(tuner: Tuner, tasks: list[Task]) -> TuningReport:
    """Tune ``tasks`` and report."""
    started = time.monotonic()
    session = tuner.run(tasks)
    return report_of(
        session,
        database=str(tuner.database.path),
        seconds=time.monotonic() - started,
        broken_lines=tuner.database.skipped,
        interrupted=bool(tuner.stop),
        source=tuner.measurer.source,
    )


def _measurable(target: str | Target, tracker: str | None, by: By) -> ResolvedTarget:
    """Return ``target`` if its code can be measured, here or behind a tracker, or modelled."""
    resolved = parse_target(target)
    if by not in get_args(By):
        raise InputError("by", f"'{by}'", " or ".join(get_args(By)))
    if by == "model":
        require("emulator", "by='model'")
        if tracker is not None:
            raise InputError("tracker", "nothing is measured by a model", "one of both")
        return resolved
    if tracker is None and not resolved.runs_here:
        raise InputError(
            "target", f"'{target}' does not run here", "this machine's target", "give a tracker"
        )
    return resolved


def tasks_of(
    source: Model,
    resolved: ResolvedTarget,
    config: Config,
    recorded: tuple[ScheduleRule, ...],
    skipped: dict[str, str],
    *,
    formats: bool = False,
) -> list[Task]:
    """Return the tasks of a model: imported, layers chosen, operators fused, nothing scheduled.

    With other parts of reductions on GPUs; ``formats``: with those of the layers' other formats.
    """
    if not resolved.runs_here:
        config = replace(config, measure=False)
    chooser = RememberingChooser(
        resolved.target,
        config,
        Decisions(),
        recorded,
        every=formats,
        extents=source.extents,
    )
    with build_context(resolved.target):
        steps = pipeline.lowering(source.weights, len(source.inputs), chooser)
        lowered = tvm.transform.Sequential(steps)(source.module)
    tasks = extract(lowered, resolved.target, skipped.__setitem__)
    others = cut_tasks(chooser.choices, resolved.target, skipped.__setitem__)
    if formats:
        others += format_tasks(chooser.choices, resolved.target, config, skipped.__setitem__)
    own = {task.workload for task in tasks}
    return [*tasks, *(task for task in others if task.workload not in own)]


@contextlib.contextmanager
def _measurer(
    resolved: ResolvedTarget, tracker: str | None, key: str | None, by: By
) -> Iterator[Measurer]:
    """Yield what measures, with a directory for its libraries."""
    target = resolved.target
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="tvm-sparse-tune-"))
        if by == "model":
            from tvm_sparse.emulation.measurer import ModelledMeasurer

            yield stack.enter_context(ModelledMeasurer(target, Path(place)))
            return
        if tracker is None:
            yield stack.enter_context(LocalMeasurer(target, Path(place)))
            return
        from tvm_sparse.tuning.remote import RemoteMeasurer, parse_tracker

        remote = RemoteMeasurer(target, Path(place), parse_tracker(tracker, key))
        yield stack.enter_context(remote)
