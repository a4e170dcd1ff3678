"""``ts.compile``: from a model to a library that runs here and exports."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from tvm_sparse.artifact.pristine import Pristine
from tvm_sparse.config import Config
from tvm_sparse.errors import SlowKernelWarning
from tvm_sparse.frontends.load import load
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.structure import plain, restored
from tvm_sparse.kernel import Kernel, slow_phrases
from tvm_sparse.memory import give_back
from tvm_sparse.passes import pipeline
from tvm_sparse.passes.dump import dumped
from tvm_sparse.passes.failures import applied
from tvm_sparse.passes.lower_contractions import count_contractions
from tvm_sparse.passes.split_batch import parts_of
from tvm_sparse.profile import planned_kernels, profile, random_inputs
from tvm_sparse.progress import shown
from tvm_sparse.refresh import Recipe
from tvm_sparse.schedules.build import build_context
from tvm_sparse.schedules.cpu.masked_loops import careful
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse.targets import ResolvedTarget, parse_target, spelled
from tvm_sparse.tuning.recorded import origins, recorded_rules

Progress = Callable[[str, int, int], None]
"""Called as ``progress(phase, step, steps)`` when a phase begins (``step`` 0), after each of its
steps and when it ends (``step == steps``), one phase after another in the order of :data:`PHASES`.
"""

PHASES = ("importing", "folding", "choosing", "scheduling", "building")
"""``choosing``, by far the longest when layers are measured, has a step for each layer; the others
have one."""


_log = logging.getLogger(__name__)


class Library:
    """A compiled model.

    Call it with the model's arguments, or with its tensors alone in order (torch, NumPy or anything
    with DLPack, zero copy where memory is aligned); it returns what the model returns.
    :meth:`export` writes a directory that ``tvm_sparse_runtime.load`` opens without compiler or
    torch. ``slow`` says which kernels have no operator of ours and take long.
    """

    def __init__(
        self,
        model: Model,
        target: Target,
        executable: Any,
        weights: dict[str, np.ndarray],
        records: tuple[Decisions, list[Kernel]],
    ) -> None:
        self.executable, self.target = executable, target
        self.decisions, self.kernels = records
        self.inputs, self.outputs, self.weights = model.inputs, model.outputs, weights
        self.bounds, self.structure = model.bounds, model.structure
        self._output_spec = model.output_spec
        self.alternatives: tuple[Library, ...] = ()
        self.recipe: Recipe | None = None
        self.slow: list[str] = []
        self._pristine = Pristine(executable)
        self._session: Any = None

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the model on this machine; returns tensors of the first input's framework."""
        if self.structure is None:
            return self._running()(*inputs, **named)
        tensors = self.run(*self._tensors(inputs, named))
        return restored(self.structure, self._output_spec, tensors)

    def run(self, *tensors: Any) -> tuple[Any, ...]:
        """Run the model on its tensors alone, in order; returns a tensor for each output."""
        found: tuple[Any, ...] = self._running().run(*tensors)
        return found

    def _running(self) -> Any:
        """Return a session of the program, started when it is first needed."""
        if self._session is None:
            on_gpu = self.target.kind.name == "cuda"
            self._session = self._exported() if on_gpu else self._started()
        return self._session

    def _tensors(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return the tensors of a call in the order of the inputs."""
        if self.structure is None:
            return [*inputs]
        return self.structure.bind([plain(value) for value in inputs], plain(dict(named)))

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<Library for {spelled(self.target)}: {inputs} -> {outputs}; {self.verdict()}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: a line and the decisions."""
        return f"<p>{escape(repr(self))}</p>{self.decisions._repr_html_()}"

    def _started(self) -> Any:
        """Return a session of the program in this process's memory."""
        from tvm_sparse_runtime.engine import start
        from tvm_sparse_runtime.session import Session

        weights = list(self.weights.values())
        vm = start(self.executable.mod)
        return Session(
            vm,
            self.inputs,
            self.outputs,
            weights,
            bounds=self.bounds,
            structure=self.structure,
        )

    def _exported(self) -> Any:
        """Return a session of an artifact: the same code here and where it is deployed."""
        from tvm_sparse_runtime.library import load

        with tempfile.TemporaryDirectory() as place:
            return load(self.export(Path(place, "model.tvms")), verify=False)

    def profile(self, *inputs: Any, repeat: int = 10, **named: Any) -> list[Kernel]:
        """Run on this machine and return every kernel in call order with its median time."""
        return profile(self, self._tensors(inputs, named), repeat)

    def verdict(self) -> str:
        """Return in one phrase what was reached: sparse layers, their gain, bytes of weights."""
        return f"{self.decisions.verdict()}; {self.nbytes / 2**20:.1f} MiB of weights"

    @property
    def nbytes(self) -> int:
        """Bytes of all packed weights."""
        return sum(w.nbytes for w in self.weights.values())

    def export(
        self,
        directory: str | Path,
        *,
        force: bool = False,
        ptx: bool = False,
        sign: Any = None,
    ) -> Path:
        """Write the artifact directory (library with mapped weights, manifest) and return it.

        Parameters
        ----------
        directory
            Its place.
        force
            Replace an artifact that is there.
        ptx
            Hold PTX for :func:`tvm_sparse.testing.emulate` instead of a GPU's machine code.
        sign
            A private Ed25519 key, or the path of its PEM file: sign the manifest, for
            ``load(..., trusted=...)``.
        """
        from tvm_sparse.artifact import export
        from tvm_sparse.artifact.link import Program

        export(
            self._pristine.executable(),
            self.weights,
            directory=Path(directory),
            inputs=self.inputs,
            outputs=self.outputs,
            target=self.target,
            decisions=self.decisions.to_json(),
            bounds=self.bounds,
            structure=self.structure,
            force=force,
            ptx=ptx,
            sign=sign,
            recipe=None if self.recipe is None else self.recipe.to_bytes(),
            alternatives=[
                Program(other._pristine.executable(), other.weights, other.target)
                for other in self.alternatives
            ],
        )
        return Path(directory)


def compile(
    model: Any,
    example_inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    target: str | Target = "cpu",
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
    target
        ``"cpu"`` (this machine's, with its real features), an LLVM CPU name as in
        ``"cpu:haswell"``, ``"cuda"``, ``"cuda:sm_90"``, or a TVM target.
    config
        Options; see :class:`Config`.
    database
        Tuning records (a directory or ``.jsonl`` file) of :func:`tvm_sparse.tune`; by default the
        user's own. Where they know nothing faster than the default schedule, the records that
        come with the package are asked.
    progress
        Called as ``progress(phase, step, steps)``; see :data:`Progress`. By default bars are drawn
        on a terminal or in a notebook.

    Raises
    ------
    InputError
        The model cannot be imported, a weight is not finite, the target is unknown.

    Warns
    -----
    SlowKernelWarning
        A kernel without an operator of ours takes more than a tenth of the time. It is measured
        where there is one and the configuration lets measure.
    """
    config = config or Config()
    resolved = parse_target(target)
    with shown(progress) as told:
        phases = _Phases(told)
        with phases.next():
            source = load(model, example_inputs, kwargs, dynamic_shapes=dynamic_shapes)
        return _compiled(source, resolved, config, database, phases)


def _compiled(
    source: Model,
    resolved: ResolvedTarget,
    config: Config,
    database: str | Path | None,
    phases: _Phases,
) -> Library:
    """Lower, schedule and build an imported model."""
    decisions = Decisions()
    packed: dict[str, np.ndarray] = {}
    if not resolved.runs_here:
        config = replace(config, measure=False)
    recorded = recorded_rules(resolved.target, database) if config.tuned else ()
    chooser = Chooser(resolved.target, config, decisions, recorded, phases.step)
    with build_context(resolved.target):
        with phases.next():
            canonicalise = pipeline.canonicalise(source.weights, len(source.inputs))
            mod = _run(dumped(canonicalise, "1-canonicalise", config.dump), source.module)
        with phases.next(count_contractions(mod)):
            mod = _run(dumped(pipeline.lower(chooser), "2-lower", config.dump), mod)
            decisions.parts = parts_of(mod)
        rules: dict[str, str | None] = {}
        with phases.next():
            schedule = pipeline.schedule(resolved.target, packed, rules.__setitem__, recorded)
            mod = _run(dumped(schedule, "3-schedule", config.dump), mod)
            kernels = planned_kernels(mod, rules)
            origins(decisions.records, {k.layer: k.rule for k in kernels})
        with phases.next():
            finalise = dumped(pipeline.finalise(resolved.target), "4-finalise", config.dump)
            executable = applied(
                lambda m: tvm.compile(
                    m,
                    target=careful(resolved.target, m),
                    relax_pipeline=tvm.transform.Sequential(finalise),
                ),
                mod,
                "built",
            )
    library = Library(source, resolved.target, executable, packed, (decisions, kernels))
    if config.refreshable:
        library.recipe = Recipe.of(source, resolved.target, config, decisions)
    if config.measure:
        library.slow = _slow(library)
    for phrase in library.slow:
        warnings.warn(phrase, SlowKernelWarning, stacklevel=3)
    return library


def _slow(library: Library) -> list[str]:
    """Return what to warn of; nothing runs where all kernels are ours."""
    if all(kernel.ours for kernel in library.kernels) or library.target.kind.name != "llvm":
        return []
    return slow_phrases(library.profile(*random_inputs(library.inputs, library.bounds), repeat=3))


class _Phases:
    """Tells of the phases in order, and gives freed memory back after each."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.names = progress, iter(PHASES)
        self.name, self.done, self.steps = "", 0, 1

    @contextlib.contextmanager
    def next(self, steps: int = 1) -> Iterator[None]:
        """Tell that the next phase, of ``steps``, begins, and after the block that it is over."""
        self.name, self.done, self.steps = next(self.names), 0, max(1, steps)
        self.progress(self.name, 0, self.steps)
        start = time.perf_counter()
        yield
        give_back()
        _log.info("%s: %.1f s", self.name, time.perf_counter() - start)
        if self.done < self.steps:
            self.progress(self.name, self.steps, self.steps)

    def step(self) -> None:
        """Tell of one more step."""
        self.done += 1
        self.progress(self.name, self.done, self.steps)


def _run(passes: list[Any], mod: tvm.IRModule) -> tvm.IRModule:
    """Apply the passes one after another; what only the former module needed goes at once."""
    for step in passes:
        start = time.perf_counter()
        mod = applied(step, mod, "lowered")
        give_back()
        _log.debug("  %s: %.0f ms", step.info.name, 1e3 * (time.perf_counter() - start))
    return mod
