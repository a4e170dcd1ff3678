"""What a source itself computes, without this compiler: PyTorch, or onnxruntime for ONNX files."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.files.part import Part
from tvm_sparse.frontends.load import open_source

Program = Callable[[], list[np.ndarray]]
"""Runs a model on inputs that it already has, and returns all its outputs."""

Reference = Callable[[Sequence[np.ndarray]], Program]
"""Makes a program of inputs."""


def is_onnx(source: Any) -> bool:
    """Whether ``source`` is an ONNX file, which PyTorch does not run."""
    return isinstance(source, str | Path) and Path(source).suffix == ".onnx"


def torch_module(source: Any, weights: str | Path | None = None) -> Any:
    """Return ``source`` as a module in evaluation mode, its masks folded in.

    An exported program takes its tensors alone, however it nests them.
    """
    import torch

    from tvm_sparse.frontends.modules.effective import inference_copy
    from tvm_sparse.frontends.structure import FlatProgram

    opened = open_source(source, weights)
    if isinstance(opened, torch.export.ExportedProgram):
        return FlatProgram(opened)
    if isinstance(opened, torch.nn.Module):
        return inference_copy(opened)
    raise InputError(str(source), "cannot be run by PyTorch", "a module or an exported program")


def eager(module: Any, inputs: Sequence[np.ndarray]) -> Program:
    """Return ``module``, called by PyTorch."""
    import torch

    from tvm_sparse.frontends.modules.effective import to_tensor

    tensors = [*map(to_tensor, inputs)]

    def run() -> list[np.ndarray]:
        with torch.inference_mode():
            return arrays(module(*tensors))

    return run


def arrays(outputs: Any) -> list[np.ndarray]:
    """Return every tensor or array of a program's result as an array, in order."""
    from torch.utils import _pytree as pytree

    from tvm_sparse.frontends.modules.effective import to_numpy

    leaves = [x for x in pytree.tree_leaves(outputs) if hasattr(x, "__dlpack__")]
    return [to_numpy(x, "output") if hasattr(x, "detach") else np.asarray(x) for x in leaves]


def reference(source: Any, weights: Path | None = None, part: Part | None = None) -> Reference:
    """Return what makes the program whose outputs count as right, a ``part`` of a file if given.

    Raises
    ------
    InputError
        An ONNX file, and onnxruntime is not installed.
    """
    if not is_onnx(source):
        return partial(eager, torch_module(source, weights))
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError(
            str(source),
            "cannot be run beside the compiled model: onnxruntime is not installed",
            todo="pip install onnxruntime",
        )
    if not part:
        return partial(fed, onnxruntime_session(str(source), threads=1))
    from tvm_sparse.frontends.onnx.cut import write_cut

    with tempfile.TemporaryDirectory() as folder:
        path = write_cut(Path(source), part, Path(folder))
        return partial(fed, onnxruntime_session(str(path), threads=1))


def onnxruntime_session(path: str, threads: int, *, optimised: bool = True) -> Any:
    """Return the ONNX file at ``path`` in onnxruntime, ``optimised`` or operator by operator."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    if not optimised:
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    settings.log_severity_level = 4  # what fails is an exception, too
    return onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])


def fed(session: Any, inputs: Sequence[np.ndarray]) -> Program:
    """Return an onnxruntime ``session``, run on ``inputs``."""
    feed = {i.name: x for i, x in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, feed)


def largest_error(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], least: float = 0.0
) -> float:
    """Return the largest difference relative to the largest value of each output; NaN must agree.

    Infinite where a shape differs, or NaN stand in other places. Outputs whose values are all
    smaller than ``least`` count as that large.
    """
    if len(found) != len(wanted):
        return np.inf
    return max((_error(f, w, least) for f, w in zip(found, wanted, strict=True)), default=0.0)


def _error(found: np.ndarray, wanted: np.ndarray, least: float) -> float:
    if found.shape != wanted.shape:
        return np.inf
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    finite = np.abs(b[np.isfinite(b)])
    error = np.abs(a[~same] - b[~same]).max() / max(float(finite.max(initial=0.0)), least, 1e-30)
    return float(error) if np.isfinite(error) else np.inf
