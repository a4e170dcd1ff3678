"""ONNX's node tests with the first axis open, run at several of its sizes.

Inputs that nodes have to know are constants, and outputs have no shape. A reference counts if it
gives the test's own outputs at the test's own size: onnxruntime, or else ONNX's evaluator.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx.reference import ReferenceEvaluator

import tvm_sparse as ts
from tests.suites import onnx_constants, onnx_nodes
from tests.suites.onnx_nodes import VERSION, operator_of
from tests.suites.onnx_single import in_single_precision
from tests.suites.opened_samples import Opened, with_sizes
from tests.suites.outcomes import Arrays, Result, difference
from tests.suites.sizes import outcome_at_sizes
from tvm_sparse.frontends.modules.effective import to_numpy
from tvm_sparse.frontends.onnx.types import to_tensor

__all__ = ["TITLE", "VERSION", "cases", "check", "operator_of"]

TITLE = "ONNX's backend node tests with the first axis open"

SCALED = 1e-5
"""What sums may be off, relative to the largest one."""


def cases() -> list[str]:
    """Return the names of all tests, but of functions that are written out."""
    return [name for name in onnx_nodes.cases() if "_expanded" not in name]


def check(key: str) -> Result | None:
    """Compile one test with an open axis; ``None`` where it has none, or is refused closed."""
    test = onnx_nodes.tests()[key]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model, inputs, outputs = onnx_constants.with_constants(test)
            tensors = tuple(map(to_tensor, inputs))
            case = _opened(model, tensors, test, outputs)
            if case is None:
                return None
            expected = [case.call(*case.at(size)) for size in (case.size, *case.sizes)]
        except Exception:
            return None
        told = _outcome(model, case, test, expected)
    return None if told is None else Result(key, operator_of(key), *told)


def _opened(
    model: Any, tensors: tuple[torch.Tensor, ...], test: Any, outputs: Arrays
) -> Opened | None:
    """Return ``model`` with its first axis open, run by a reference that gives ``outputs``."""
    if not tensors or not tensors[0].dim():
        return None
    for run in _references(model):
        try:
            same = not difference(run(*tensors), outputs, rtol=test.rtol, atol=_atol(test, outputs))
        except Exception:
            same = False
        if same:
            return with_sizes(run, tensors, 0)
    return None


def _references(model: Any) -> Iterator[Callable[..., Arrays]]:
    """Yield functions that run ``model`` at any size."""
    plain = _with_axes(model, None)
    names = [value.name for value in model.graph.input]

    def feed(tensors: tuple[torch.Tensor, ...]) -> dict[str, np.ndarray]:
        return {name: to_numpy(x, "") for name, x in zip(names, tensors, strict=True)}

    try:
        session = onnxruntime.InferenceSession(plain.SerializeToString(), _quiet())
    except Exception:
        session = None
    if session is not None:
        yield lambda *tensors: session.run(None, feed(tensors))
    evaluator = ReferenceEvaluator(plain)
    yield lambda *tensors: [np.asarray(x) for x in evaluator.run(None, feed(tensors))]


def _quiet() -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return options


def _with_axes(model: Any, case: Opened | None) -> Any:
    """Return ``model`` with the open axes of ``case``, or without any shape; outputs have none."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.value_info[:]
    unknown = [*result.graph.output, *(result.graph.input if case is None else ())]
    for kind in filter(None, map(_tensor_type, unknown)):
        kind.ClearField("shape")
    for number, axis in () if case is None else case.axes:
        _tensor_type(result.graph.input[number]).shape.dim[axis].dim_param = "n"
    return result


def _tensor_type(value: Any) -> Any:
    """Return the type of the tensor that ``value`` is or may be, None for other kinds."""
    kind = value.type
    if kind.HasField("optional_type"):
        kind = kind.optional_type.elem_type
    return kind.tensor_type if kind.HasField("tensor_type") else None


def _outcome(model: Any, case: Opened, test: Any, expected: list[Arrays]) -> tuple[str, str] | None:
    def compiled(asked: Any) -> Any:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place, "model.onnx")
            onnx.save(asked, path)
            return ts.compile(path, config=onnx_nodes.CONFIG)

    sizes: list[int] = []

    def run(library: Any, size: int) -> Arrays:
        sizes.append(size)
        found = library(*case.at(size))
        return [to_numpy(x, "") for x in (found if isinstance(found, tuple | list) else [found])]

    def differs(found: Arrays, wanted: Arrays) -> str:
        options = {"rtol": test.rtol, "atol": _atol(test, wanted)}
        reason = difference(found, wanted, **options)
        if reason and _is_disputed(model, case.at(sizes[-1]), wanted, options):
            return ""
        if reason and any(x.dtype == np.float16 for x in wanted):  # rounded at every step
            given = [to_numpy(x, "") for x in case.at(sizes[-1])]
            pairs = zip(in_single_precision(_with_axes(model, None), given), wanted, strict=True)
            exact = [np.asarray(x).astype(y.dtype) for x, y in pairs]
            return difference(found, exact, **options)
        return reason

    return outcome_at_sizes(
        case,
        expected,
        compiled=lambda: compiled(_with_axes(model, case)),
        closed=lambda: compiled(model),
        run=run,
        differs=differs,
    )


def _is_disputed(model: Any, given: Any, wanted: Arrays, options: dict[str, float]) -> bool:
    """Whether another reference gives something else: the scale of zeros alone is anything."""
    for run in _references(model):
        try:
            other = run(*given)
        except Exception:
            continue
        if difference(other, wanted, **options):
            return True
    return False


def _atol(test: Any, outputs: Arrays) -> float:
    floats = [np.abs(x[np.isfinite(x)]) for x in outputs if x.dtype.kind == "f"]
    return max([test.atol, *(SCALED * float(x.max(initial=0)) for x in floats)])
