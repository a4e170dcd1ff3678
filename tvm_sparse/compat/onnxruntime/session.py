"""``InferenceSession``: what this package compiled, behind the interface of onnxruntime."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_sparse.base.config import Config
from tvm_sparse.base.onnxruntime_itself import onnxruntime
from tvm_sparse.compat.onnxruntime.binding import IOBinding
from tvm_sparse.compat.onnxruntime.described import ModelMetadata, NodeArg
from tvm_sparse.compat.onnxruntime.installed import PROVIDER, fallback_by_default
from tvm_sparse.compat.onnxruntime.options import SessionOptions, real_options
from tvm_sparse.compat.onnxruntime.programs import Calls, Constants, opened
from tvm_sparse.compat.onnxruntime.values import OrtValue, array_of
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse_runtime.errors import SparseRuntimeError

_log = logging.getLogger("tvm_sparse.compat.onnxruntime")


class InferenceSession:
    """A model, ready to run.

    An ONNX file is compiled when the session is made, and kept in the user's cache directory; the
    next session of the same file opens in milliseconds. A model whose graph depends on inputs of
    one whole number, like a sampling rate, is compiled once for each of their values instead, when
    it first runs with them.

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
        How an ONNX file is compiled; not an argument of onnxruntime.

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
        self._lock, self._calls, self._real = threading.Lock(), dict[Constants, Calls](), None
        try:
            _check(providers)
            sizes = getattr(self._options, "free_dimensions", {})
            self._model = opened(path_or_bytes, sizes, config or Config())
            self._deciding: tuple[str, ...] = ()
            try:
                self._calls[()] = self._opened(())
            except SparseError:
                if not self._model.deciding:
                    raise
                self._deciding = self._model.deciding
        except (SparseError, SparseRuntimeError) as error:
            self._fall_back(error)

    def _opened(self, constants: Constants) -> Calls:
        return Calls(self._model.library(constants), self._options.intra_op_num_threads)

    def _fall_back(self, error: Exception) -> None:
        """Let onnxruntime run the model from now on, or raise ``error``."""
        if not self._fallback:
            raise error
        module, name = onnxruntime("fallback"), "a model"
        if isinstance(self._source, str | os.PathLike):
            name = os.fspath(self._source)
        _log.warning("onnxruntime runs %s: %s", name, error)
        options = real_options(module, self._options)
        self._real = module.InferenceSession(self._source, options, providers=[PROVIDER])

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
            try:
                return self._run(output_names, feed)
            except (SparseError, SparseRuntimeError) as error:
                self._fall_back(error)
        assert self._real is not None
        found: list[np.ndarray] = self._real.run(output_names, feed)
        return found

    def _run(
        self, output_names: Sequence[str] | None, feed: Mapping[str, np.ndarray]
    ) -> list[np.ndarray]:
        inputs, outputs = (
            [v.name for v in values] for values in (self._model.inputs, self._model.outputs)
        )
        for name in feed:
            if name not in inputs:
                raise InputError(f"input '{name}'", "is unknown", ", ".join(inputs))
        for name in inputs:
            if name not in feed:
                raise InputError(f"input '{name}'", "is missing", "an array for each input")
        for name in output_names or ():
            if name not in outputs:
                raise InputError(f"output '{name}'", "is unknown", ", ".join(outputs))
        constants = tuple((name, feed[name].tolist()) for name in self._deciding)
        with self._lock:
            calls = self._calls.get(constants)
            if calls is None:
                calls = self._calls[constants] = self._opened(constants)
        found = dict(zip(outputs, calls([feed[n] for n in inputs if n not in self._deciding])))
        return [found[name] for name in output_names or outputs]

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
        """Return no file: `tvm-sparse run --profile` has the times of kernels."""
        return ""


def _check(providers: Sequence[Any] | None) -> None:
    """Refuse providers without the CPU's."""
    names = [p if isinstance(p, str) else p[0] for p in providers or ()]
    if names and PROVIDER not in names:
        raise InputError("providers", f"are {', '.join(names)}", PROVIDER, "add it")
