"""``ts.compile``: from a model to a library."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from tvm_sparse.artifact.pristine import Pristine
from tvm_sparse.base.config import Config, Precision
from tvm_sparse.base.freed import give_back
from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.base.made_inputs import calls
from tvm_sparse.base.notes import Notes
from tvm_sparse.base.phases import Phases, Progress
from tvm_sparse.base.progress import shown
from tvm_sparse.base.targets import ResolvedTarget, is_launched, parse_target, programs_of
from tvm_sparse.comparison.profile import planned_kernels, profile_blindly
from tvm_sparse.comparison.programs import call
from tvm_sparse.comparison.reference import largest_error
from tvm_sparse.errors import InputError, SlowKernelWarning, WidenedBytesWarning
from tvm_sparse.frontends.example_inputs import arguments
from tvm_sparse.frontends.load import load
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.traced_for import traced_for
from tvm_sparse.passes import pipeline
from tvm_sparse.passes.finish.assemble import assemble
from tvm_sparse.passes.finish.write_padding import definitions
from tvm_sparse.passes.graph.dump import dumped
from tvm_sparse.passes.graph.failures import applied
from tvm_sparse.passes.lower.lower_contractions import count_contractions
from tvm_sparse.passes.shrink.split_batch import parts_of
from tvm_sparse.program.compiled import Compiled
from tvm_sparse.program.library import Library
from tvm_sparse.program.refresh import Recipe
from tvm_sparse.schedules.build import build_context, device_of
from tvm_sparse.schedules.kernel import slow_phrases
from tvm_sparse.selection.all_dense import all_dense, worth_a_look
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions, Rounding
from tvm_sparse.tuning.history import histories
from tvm_sparse.tuning.recorded import origins, recorded_rules
from tvm_sparse_runtime.errors import SparseRuntimeError

_log = logging.getLogger(__name__)


@whole_imports()
def compile(
    model: Any,
    example_inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    outputs: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    target: str | Target = "cpu",
    precision: Precision | None = None,
    config: Config | None = None,
    database: str | Path | None = None,
    progress: Progress | None = None,
) -> Library:
    """Compile a pruned model for ``target``.

    Parameters
    ----------
    model
        An ``nn.Module`` (with ``example_inputs``), an ``ExportedProgram``, a path that
        ``frontends.load`` knows, or a :class:`~tvm_sparse.frontends.model.Model`.
    example_inputs
        A tensor, a sequence of positional arguments, or a mapping of keyword ones.
    kwargs
        Keyword arguments besides.
    dynamic_shapes
        Which extents stay symbolic, as :func:`torch.export.export` takes it.
    outputs
        For an ONNX file: names of values that the library returns instead of the file's outputs.
    constants
        For an ONNX file: inputs that are constants instead, by name.
    target
        ``"cpu"`` (this machine's, with its real features), an LLVM CPU name as in
        ``"cpu:haswell"``, ``"cuda"``, ``"cuda:sm_90"``, or a TVM target. With
        ``"cuda:sm_80,sm_90a"`` the artifact holds two programs, of which the runtime takes the one
        for its GPU; ``library.alternatives`` has the second.
    precision
        ``"bfloat16"``: layers multiply numbers of eight bits, where the chip has instructions for
        them. What that costs is measured on the example inputs, or on random ones: see
        ``library.decisions.rounding``. The same as the field of ``config``.
    config
        Options; see :class:`Config`.
    database
        Tuning records (a directory or ``.jsonl`` file) of :func:`tvm_sparse.tune`; by default the
        user's own. Where they know nothing faster than the default schedule, the records that
        come with the package are asked.
    progress
        Called as ``progress(phase, step, steps)``; see :data:`tvm_sparse.base.phases.Progress`. By
        default bars are drawn on a terminal or in a notebook.

    Raises
    ------
    InputError
        The model cannot be imported, a weight is not finite, the target is unknown.

    Warns
    -----
    SlowKernelWarning
        A kernel without an operator of ours takes more than a tenth of the time. It is measured
        where there is one and the configuration lets measure.
    WidenedBytesWarning
        Layers or products of a quantized model multiply wider numbers, as the target has no
        operators of bytes for them: one warning for each kind.
    """
    config = config or Config()
    config = config if precision is None else replace(config, precision=precision)
    targets = [parse_target(one) for one in programs_of(target)]
    examples = (example_inputs, kwargs)
    if len(targets) > 1 and config.refreshable:
        raise InputError("Config, refreshable", "True", "False where there are several programs")

    def imported() -> Model:
        options = {"dynamic_shapes": dynamic_shapes, "outputs": outputs, "constants": constants}
        return load(model, *examples, **options)

    return library_of(imported, targets, examples, config, database, progress)


def library_of(  # noqa: PLR0917 (what a compilation depends on)
    imported: Callable[[], Model],
    targets: Sequence[ResolvedTarget],
    examples: tuple[Any, Any],
    config: Config,
    database: str | Path | None,
    progress: Progress | None,
) -> Library:
    """Return the model that ``imported`` returns, compiled for each of ``targets``.

    ``examples`` are inputs of a call, positional ones and named ones, or None. What the user should
    know is warned of at the caller of the caller, a decorator between them.
    """
    source: Model | None = None
    programs: list[Compiled] = []
    with shown(progress) as told:
        for resolved in targets:
            phases = Phases(told)
            with phases.next(), traced_for(resolved.target):
                source = source or imported()
            programs.append(_compiled(source, resolved, config, database, phases))
    library = Library(replace(programs[0], alternatives=tuple(programs[1:])))
    libraries = (library, *library.alternatives)
    for one, program, resolved in zip(libraries, programs, targets, strict=True):
        for phrase in one.slow if config.measure else ():
            warnings.warn(phrase, SlowKernelWarning, stacklevel=4)
        for phrase in one.decisions.in_floats.phrases():
            warnings.warn(phrase, WidenedBytesWarning, stacklevel=4)
        if config.precision != Config.precision:
            one.decisions.rounding = _rounding(one, program.model, resolved, config, examples)
    return library


def _rounding(
    library: Library,
    source: Model,
    resolved: ResolvedTarget,
    config: Config,
    examples: tuple[Any, Any],
) -> Rounding:
    """Return what another precision costs, beside the same network without it."""
    if not resolved.runs_here:
        return Rounding(config.precision, None, "")
    plain = replace(config, precision=Config.precision, measure=False, refreshable=False)
    exact = Library(_compiled(source, resolved, plain, None, Phases(lambda *_: None)))
    if all(given is None for given in examples):
        return Rounding(config.precision, _error_of_made_inputs(library, exact), "random inputs")
    (args, named), more = arguments(() if examples[0] is None else examples[0]), examples[1] or {}
    inputs = library.arrays(*args, **named, **more)
    error = largest_error(call(library, inputs), call(exact, inputs))
    return Rounding(config.precision, error, "the example inputs")


def _error_of_made_inputs(library: Library, exact: Library) -> float | None:
    """Return the error of a library beside an exact one; ``None`` where both refuse made inputs."""
    for inputs in calls(library.inputs, library.bounds):
        with suppress(SparseRuntimeError):
            return largest_error(call(library, inputs), call(exact, inputs))
    return None


def _compiled(
    source: Model,
    resolved: ResolvedTarget,
    config: Config,
    database: str | Path | None,
    phases: Phases,
) -> Compiled:
    """Lower, schedule and build an imported model."""
    decisions = Decisions()
    packed: dict[str, np.ndarray] = {}
    if not resolved.timed_here:
        config = replace(config, measure=False)
    recorded = recorded_rules(resolved.target, database) if config.tuned else ()
    chooser = Chooser(
        resolved.target, config, decisions, recorded, phases.step, extents=source.extents
    )
    for layer, phrase in source.notes.items():
        chooser.notes.add(layer, phrase)
    with build_context(resolved.target):
        with phases.next():
            canonicalise = pipeline.canonicalise(source.weights, len(source.inputs))
            mod = _run(dumped(canonicalise, "1-canonicalise", config.dump), source.module)
        with phases.next(count_contractions(mod)):
            mod, decisions = _lowered(mod, chooser)
            decisions.parts = parts_of(mod)
        rules: dict[str, str | None] = {}
        free: list[int] = []
        with phases.next():
            tell = rules.__setitem__
            schedule = pipeline.schedule(resolved.target, packed, tell, recorded, free.extend)
            defined, mod = mod, _run(dumped(schedule, "3-schedule", config.dump), mod)
            kernels = planned_kernels(mod, rules)
            origins(decisions.records, {k.layer: k.rule for k in kernels})
            functions = definitions(defined, mod)
            decisions.histories = histories(functions, kernels, resolved.target, recorded)
        with phases.next():
            finalise = dumped(pipeline.finalise(resolved.target), "4-finalise", config.dump)
            target, native = resolved.target, pipeline.passes_of(resolved.target).native_main
            options = device_of(target).options
            executable = applied(
                lambda m: assemble(m, options(target, m), finalise, native=native), mod, "built"
            )
    recipe = Recipe.of(source, resolved.target, config, decisions) if config.refreshable else None
    compiled = Compiled(
        source,
        resolved.target,
        executable,
        Pristine(executable),
        packed,
        decisions,
        kernels,
        unaligned=tuple(free),
        recipe=recipe,
    )
    return replace(compiled, slow=tuple(_slow(compiled, measure=config.measure)))


def _lowered(mod: tvm.IRModule, chooser: Chooser) -> tuple[tvm.IRModule, Decisions]:
    """Return the lowered network; the all-dense one where the model finds that as fast."""
    config, decisions, before = chooser.config, chooser.decisions, list(chooser.notes)
    lowered = _run(dumped(pipeline.lower(chooser), "2-lower", config.dump), mod)
    changes = list(chooser.notes)[len(before) :]
    if not config.sparse or config.force or not worth_a_look(decisions, changes):
        return lowered, decisions
    dense = Chooser(
        chooser.target,
        replace(config, sparse=False),
        Decisions(),
        chooser.first,
        extents=chooser.extents,
        notes=Notes(before),
    )
    other = _run(pipeline.lower(dense), mod)
    found = all_dense(decisions, dense.decisions)
    return (lowered, decisions) if found is None else (other, found)


def _slow(program: Compiled, *, measure: bool) -> list[str]:
    """Return what to say of slow kernels; nothing runs where all kernels are ours."""
    if all(kernel.ours for kernel in program.kernels) or is_launched(program.target):
        return []
    return slow_phrases(profile_blindly(program, repeat=3) if measure else program.kernels)


def _run(passes: list[Any], mod: tvm.IRModule) -> tvm.IRModule:
    """Apply the passes one after another; what only the former module needed goes at once."""
    for step in passes:
        start = time.perf_counter()
        mod = applied(step, mod, "lowered")
        give_back()
        _log.debug("  %s: %.0f ms", step.info.name, 1e3 * (time.perf_counter() - start))
    return mod
