"""The interface of DeepSparse's engine: ``from tvm_sparse.compat.deepsparse import Engine``."""

from __future__ import annotations

import itertools
import queue
import tempfile
import time
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.artifact.own_key import open_own, own_key, own_trust
from tvm_sparse.base.config import Config
from tvm_sparse.base.extras import require
from tvm_sparse.compat.benchmarking import BatchBenchmarkResult, BenchmarkResults
from tvm_sparse.errors import InputError
from tvm_sparse.program.compiler import compile
from tvm_sparse_runtime.host import physical_cores

Arrays = list[np.ndarray]
Shapes = Sequence[Sequence[int]]


class Scheduler(Enum):
    """How calls from several threads share the cores."""

    default = "single_stream"
    single_stream = "single_stream"
    multi_stream = "multi_stream"
    elastic = "elastic"


_SCHEDULERS = {
    **{name: Scheduler.single_stream for name in ("sync", "single", "single_stream")},
    **{name: Scheduler.multi_stream for name in ("async", "multi", "multi_stream")},
    "elastic": Scheduler.elastic,
}


class Engine:
    """A compiled ONNX model for one batch size.

    Parameters
    ----------
    model
        An ONNX file, or a folder with a ``model.onnx``.
    batch_size
        First extent of every input.
    num_cores
        Threads of all calls together; all physical cores without it.
    num_streams
        Calls that run side by side where the scheduler is not ``single_stream``; as many as there
        are cores without it.
    scheduler
        A :class:`Scheduler` or its name.
    input_shapes
        Shapes of the inputs in order, if not those of the model.
    config
        How it is compiled; not an argument of DeepSparse.

    Raises
    ------
    InputError
        The model cannot be read, an argument is not valid, or ``onnx`` is not installed.
    """

    def __init__(  # noqa: PLR0917 (DeepSparse's own signature)
        self,
        model: str | Path,
        batch_size: int = 1,
        num_cores: int | None = None,
        num_streams: int | None = None,
        scheduler: Scheduler | str | None = None,
        input_shapes: Shapes | None = None,
        *,
        config: Config | None = None,
    ) -> None:
        if batch_size < 1:
            raise InputError("batch_size", f"is {batch_size}", "at least 1")
        self.model_path = str(_onnx_file(model))
        self.batch_size, self.num_cores = batch_size, num_cores or physical_cores()
        self.scheduler = _scheduler(scheduler)
        single = self.scheduler is Scheduler.single_stream
        streams = 1 if single else min(num_streams or self.num_cores, self.num_cores)
        self.num_streams = streams
        source = _fixed(self.model_path, batch_size, input_shapes)
        self.library = compile(source, config=config)
        with tempfile.TemporaryDirectory() as place:
            path = self.library.export(Path(place, "model.tvms"), sign=own_key())
            session = open_own(path, own_trust())
        threads = max(self.num_cores // streams, 1) if num_cores or streams > 1 else None
        self._idle: queue.LifoQueue[Any] = queue.LifoQueue()
        for _ in range(streams):
            self._idle.put(session.clone(threads=threads))

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs in order."""
        return [spec.name for spec in self.library.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs in order."""
        return [spec.name for spec in self.library.outputs]

    @property
    def input_shapes(self) -> list[tuple[int | str, ...]]:
        """Shapes of the inputs in order."""
        return [spec.shape for spec in self.library.inputs]

    def __call__(self, inp: Arrays, val_inp: bool = True) -> Arrays:
        """Return what :meth:`run` does."""
        return self.run(inp, val_inp)

    def run(self, inp: Arrays, val_inp: bool = True) -> Arrays:
        """Return the outputs for the arrays ``inp``, each in the order of the graph.

        Raises
        ------
        InputError
            With ``val_inp``: ``inp`` is no list, or an array is not contiguous.
        TensorError
            An array has another shape or type than the input.
        """
        if val_inp:
            _check(inp)
        session = self._idle.get()
        try:
            return list(session.run(*inp))
        finally:
            self._idle.put(session)

    def timed_run(self, inp: Arrays, val_inp: bool = False) -> tuple[Arrays, float]:
        """Return the outputs and the seconds that they took."""
        begin = time.perf_counter()
        found = self.run(inp, val_inp)
        return found, time.perf_counter() - begin

    def mapped_run(self, inp: Arrays, val_inp: bool = True) -> dict[str, np.ndarray]:
        """Return the outputs by their names."""
        return dict(zip(self.output_names, self.run(inp, val_inp), strict=True))

    def benchmark(
        self,
        inp: Arrays,
        num_iterations: int = 20,
        num_warmup_iterations: int = 5,
        include_inputs: bool = False,
        include_outputs: bool = False,
    ) -> BenchmarkResults:
        """Return the times of calls with ``inp``, after some that are not counted."""
        return self.benchmark_loader(
            [inp], num_iterations, num_warmup_iterations, include_inputs, include_outputs
        )

    def benchmark_loader(
        self,
        loader: Iterable[Arrays],
        num_iterations: int = 20,
        num_warmup_iterations: int = 5,
        include_inputs: bool = False,
        include_outputs: bool = False,
    ) -> BenchmarkResults:
        """Return the times of calls with what ``loader`` gives, over and over."""
        if num_iterations < 1 or num_warmup_iterations < 0:
            given = f"{num_iterations} after {num_warmup_iterations}"
            raise InputError("iterations", given, "at least 1 after at least 0")
        results = []
        batches = itertools.islice(itertools.cycle(loader), num_warmup_iterations + num_iterations)
        for batch in batches:
            begin = time.perf_counter()
            found = self.run(batch)
            end = time.perf_counter()
            inputs, outputs = batch if include_inputs else None, found if include_outputs else None
            results.append(BatchBenchmarkResult(begin, end, self.batch_size, inputs, outputs))
        return BenchmarkResults(tuple(results[num_warmup_iterations:]))


def compile_model(model: str | Path, batch_size: int = 1, **options: Any) -> Engine:
    """Return an engine of ``model``; ``options`` are those of :class:`Engine`."""
    return Engine(model, batch_size, **options)


def benchmark_model(  # noqa: PLR0917 (DeepSparse's own signature)
    model: str | Path,
    inp: Arrays,
    batch_size: int = 1,
    num_cores: int | None = None,
    num_streams: int | None = None,
    num_iterations: int = 20,
    num_warmup_iterations: int = 5,
    include_inputs: bool = False,
    include_outputs: bool = False,
    **options: Any,
) -> BenchmarkResults:
    """Return the times of an engine of ``model``; ``options`` are those of :class:`Engine`."""
    engine = Engine(model, batch_size, num_cores, num_streams, **options)
    return engine.benchmark(
        inp, num_iterations, num_warmup_iterations, include_inputs, include_outputs
    )


def _onnx_file(model: str | Path) -> Path:
    """Return the ONNX file that ``model`` names."""
    if str(model).startswith("zoo:"):
        todo = "give the path of its model.onnx"
        raise InputError(str(model), "names a model of the SparseZoo, which is gone", "", todo)
    path = Path(model)
    return path / "model.onnx" if path.is_dir() else path


def _fixed(path: str, batch_size: int, shapes: Shapes | None) -> Any:
    require("onnx", path)
    from tvm_sparse.frontends.onnx.reader import read_onnx
    from tvm_sparse.frontends.onnx.shapes import fixed_model

    return fixed_model(read_onnx(Path(path)), path, batch_size, shapes)


def _scheduler(given: Scheduler | str | None) -> Scheduler:
    if given is None or isinstance(given, Scheduler):
        return given or Scheduler.default
    if given not in _SCHEDULERS:
        raise InputError("scheduler", f"is '{given}'", f"one of {', '.join(_SCHEDULERS)}")
    return _SCHEDULERS[given]


def _check(inp: Any) -> None:
    if not isinstance(inp, list):
        raise InputError("inp", f"is a {type(inp).__name__}", "a list of arrays")
    for place, array in enumerate(inp):
        if not array.flags["C_CONTIGUOUS"]:
            todo = "call numpy.ascontiguousarray"
            raise InputError(f"inp[{place}]", "is not contiguous", "C order", todo)
