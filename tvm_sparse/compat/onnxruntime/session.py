"""``InferenceSession``: what this package compiled, behind the interface of onnxruntime."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_sparse.base.config import Config
from tvm_sparse.base.onnxruntime_itself import onnxruntime
from tvm_sparse.compat.onnxruntime.binding import IOBinding
from tvm_sparse.compat.onnxruntime.described import (
    ModelMetadata,
    NodeArg,
    check_names,
    fits,
)
from tvm_sparse.compat.onnxruntime.installed import PROVIDER, fallback_by_default
from tvm_sparse.compat.onnxruntime.options import SessionOptions, real_options
from tvm_sparse.compat.onnxruntime.programs import Calls, Fixed, opened
from tvm_sparse.compat.onnxruntime.values import OrtValue, array_of
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse_runtime.errors import SparseRuntimeError, TensorError

Feed = Mapping[str, np.ndarray]

_log = logging.getLogger("tvm_sparse.compat.onnxruntime")


class InferenceSession:
    """A model, ready to run.

    An ONNX file is compiled when the session is made, and kept in the user's cache directory; the
    next session of the same file opens in milliseconds. Open extents stay open. What cannot be
    compiled so is compiled when it first runs: for the values of inputs that are one whole number,
    like a sampling rate, and then for the shapes of that call. A line in the log comes before
    each compilation, which may take minutes.

    Parameters
    ----------
    path_or_bytes
        The folder of an artifact, an ``.onnx`` file, or the content of one.
    sess_options
        Of this module or of onnxruntime. ``intra_op_num_threads`` are the threads of a run, at most
        as many as there are physical cores; so many runs go side by side as the cores allow.
    providers
        Runs are on the CPU: ``"CPUExecutionProvider"`` has to be among them, if any is named.
    provider_options, **kwargs
        Not used.
    fallback
        Whether onnxruntime itself runs what is refused here, with one line in the log that says
        why. By default what :func:`.install` was told, else no.
    config
        How an ONNX file is compiled, by default without measuring; not an argument of onnxruntime.

    Raises
    ------
    SparseError
        The model is refused, and not to fall back.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Any = None,
        *,
        fallback: bool | None = None,
        config: Config | None = None,
        **kwargs: Any,
    ) -> None:
        self._source, self._options = path_or_bytes, sess_options or SessionOptions()
        self._fallback = fallback_by_default() if fallback is None else fallback
        self._lock, self._calls, self._real = threading.Lock(), dict[Fixed, Calls](), None
        self._step, self._shaped = 0, False
        try:
            _check(providers)
            sizes = getattr(self._options, "free_dimensions", {})
            self._model = opened(path_or_bytes, sizes, config or Config(measure=False))
            self._steps = [self._as_it_is, self._with_constants, self._with_shapes]
            try:
                self._opened(Fixed())
            except SparseError:
                if not (self._model.deciding or self._model.is_open):
                    raise
                self._step = 1
        except (SparseError, SparseRuntimeError) as error:
            self._fall_back(error)

    def _as_it_is(self, feed: Feed) -> Fixed:
        return Fixed()

    def _with_constants(self, feed: Feed) -> Fixed:
        return Fixed(tuple((name, feed[name].tolist()) for name in self._model.deciding))

    def _with_shapes(self, feed: Feed) -> Fixed:
        shapes = tuple((value.name, feed[value.name].shape) for value in self._model.inputs)
        return replace(self._with_constants(feed), shapes=shapes)

    def _opened(self, fixed: Fixed) -> Calls:
        with self._lock:
            if fixed not in self._calls:
                library = self._model.library(fixed)
                self._calls[fixed] = Calls(library, self._options.intra_op_num_threads)
            return self._calls[fixed]

    def _fall_back(self, error: Exception) -> None:
        """Let onnxruntime run the model from now on, or raise ``error``."""
        if not self._fallback:
            raise error
        module = onnxruntime("fallback")
        _log.warning("onnxruntime runs %s: %s", self._name, error)
        options = real_options(module, self._options)
        self._real = module.InferenceSession(self._source, options, providers=[PROVIDER])

    @property
    def _name(self) -> str:
        path = isinstance(self._source, str | os.PathLike)
        return os.fspath(self._source) if path else "a model"

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[np.ndarray]:
        """Return outputs for the arrays ``input_feed``.

        Parameters
        ----------
        output_names
            Which outputs, in which order; all without it.
        input_feed
            An array or value for each input.
        run_options
            Used where onnxruntime runs the model.

        Raises
        ------
        InputError
            A name is unknown, or an input is missing.
        TensorError
            An array has another shape or type than its input.
        """
        feed = {name: array_of(value) for name, value in input_feed.items()}
        if self._real is None:
            outputs = [value.name for value in self._model.outputs]
            check_names(feed, self._model.inputs, output_names, outputs)
            try:
                found = dict(zip(outputs, self._called(feed), strict=True))
                return [found[name] for name in output_names or outputs]
            except (SparseError, SparseRuntimeError) as error:
                if not fits(feed, self._model.inputs):
                    raise
                self._fall_back(error)
        assert self._real is not None
        theirs: list[np.ndarray] = self._real.run(output_names, feed)
        return theirs

    def _called(self, feed: Feed) -> tuple[Any, ...]:
        """Return all outputs, of the first program that is not refused and takes ``feed``."""
        shaped = self._with_shapes(feed) if self._shaped else None
        if shaped in self._calls:
            return self._outputs(shaped, feed)
        first: Exception | None = None
        step = self._step
        while step < len(self._steps):
            try:
                found = self._outputs(self._steps[step](feed), feed)
                self._step, self._shaped = min(step, 1), self._shaped or step > 1
                return found
            except (SparseError, TensorError) as error:
                first = first or error
                open_ = self._model.is_open or self._model.deciding
                if not open_ or not fits(feed, self._model.inputs):
                    break
                # What is compiled for too few shapes is no better with constants.
                step = step + 1 if isinstance(error, SparseError) else max(step + 1, 2)
        assert first is not None
        raise first

    def _outputs(self, fixed: Fixed, feed: Feed) -> tuple[Any, ...]:
        constants = dict(fixed.constants)
        names = [value.name for value in self._model.inputs if value.name not in constants]
        return self._opened(fixed)([feed[name] for name in names])

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[OrtValue]:
        """Return what :meth:`run` does, as values."""
        found = self.run(output_names, input_dict_ort_values, run_options)
        return [OrtValue(array) for array in found]

    def io_binding(self) -> IOBinding:
        """Return a new binding."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run on what is bound."""
        iobinding.run(self, run_options)

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs in order."""
        return list(self._told("get_inputs", "inputs"))

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs in order."""
        return list(self._told("get_outputs", "outputs"))

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return nothing: weights are what they are."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says about itself; an artifact says nothing."""
        found: ModelMetadata = self._told("get_modelmeta", "metadata")
        return found

    def _told(self, method: str, attribute: str) -> Any:
        if self._real is not None:
            return getattr(self._real, method)()
        return getattr(self._model, attribute)

    def get_providers(self) -> list[str]:
        """Return the CPU's only."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return none."""
        return {PROVIDER: {}}

    def set_providers(self, providers: Sequence[Any] | None = None, _: Any = None) -> None:
        """Check that the CPU's is among ``providers``."""
        _check(providers)

    def get_session_options(self) -> Any:
        """Return the options."""
        return self._options

    def enable_fallback(self) -> None:
        """Let onnxruntime itself run what is refused here."""
        self._fallback = True

    def disable_fallback(self) -> None:
        """Refuse what is refused."""
        self._fallback = False

    def end_profiling(self) -> str:
        """Return no file: `tvm-sparse run --trace` writes the times of kernels."""
        return ""


def _check(providers: Sequence[Any] | None) -> None:
    """Refuse providers without the CPU's."""
    names = [p if isinstance(p, str) else p[0] for p in providers or ()]
    if names and PROVIDER not in names:
        raise InputError("providers", f"are {', '.join(names)}", PROVIDER, "add it")
