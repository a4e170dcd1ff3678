"""ONNX's own tests of its operators (backend node tests), compiled by ``ts.compile``."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx.backend.test.loader import load_model_tests

import tvm_sparse as ts
from tests.suites.onnx_single import in_single_precision
from tests.suites.outcomes import RIGHT, WRONG, Arrays, Result, difference, outcome_of
from tvm_sparse.frontends.modules.effective import to_numpy
from tvm_sparse.frontends.onnx.types import to_tensor

TITLE = "ONNX's backend node tests"
VERSION = f"onnx {onnx.__version__}"

TRANSFORMS, OF_LARGEST = ("DFT", "STFT"), 1e-6
"""Operators whose elements of zero are sums that cancel, and the error that they may have of the
largest output. The tests come from float64. Each of some ten to sixteen terms in float32 is off by
up to 6e-8 of the sum of their sizes. onnxruntime 1.32 misses the tests' own tolerance in all of
them, by up to 6.4e-7 of the largest output."""

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


@cache
def tests() -> dict[str, Any]:
    """Return all tests by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def cases() -> list[str]:
    """Return the names of all tests."""
    return list(tests())


def operator_of(key: str) -> str:
    """Return the operator of the test ``key``, also where its function is written out."""
    plain = re.sub(r"_expanded(_ver\d+)?$", "", key)
    nodes = tests()[plain if plain in tests() else key].model.graph.node
    return next((node.op_type for node in nodes if node.op_type != "Constant"), "Constant")


def check(key: str) -> Result:
    """Compile one test and compare it with the outputs that come with it."""
    case = tests()[key]
    inputs, outputs = ([array(x) for x in values] for values in case.data_sets[0])
    return compared(key, case.model, inputs, outputs)


def compared(key: str, model: Any, inputs: Arrays, outputs: Arrays) -> Result:
    """Compile ``model`` and compare it with ``outputs``, as near as the test ``key`` asks for."""
    case = tests()[key]
    atol = case.atol
    if operator_of(key) in TRANSFORMS:
        atol = max(atol, OF_LARGEST * max(float(np.abs(x).max(initial=0)) for x in outputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: list[Arrays] = []
        outcome, reason = outcome_of(
            lambda: _compiled(model, inputs, found), outputs, rtol=case.rtol, atol=atol
        )
        if outcome == WRONG and found and any(x.dtype == np.float16 for x in outputs):
            # The test's own outputs were rounded at every step.
            exact = [
                np.asarray(x).astype(y.dtype)
                for x, y in zip(in_single_precision(model, inputs), outputs, strict=True)
            ]
            if not difference(found[0], exact, rtol=case.rtol, atol=atol):
                outcome = RIGHT
    # Which output the node has is no reason.
    reason = re.sub(r"^(node|layer) '[^']*': ", "", reason)
    return Result(key, operator_of(key), outcome, reason if outcome != RIGHT else "")


def array(value: Any) -> np.ndarray:
    """Return a tensor of a test; for sequences and optionals, which are refused, anything."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.array(None) if value is None or isinstance(value, list) else np.asarray(value)


def _compiled(model: Any, inputs: Arrays, outputs: list[Arrays]) -> Callable[[], Arrays]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "model.onnx")
        onnx.save(model, path)
        library = ts.compile(path, config=CONFIG)

    def run() -> Arrays:
        found = library(*map(to_tensor, inputs)) if inputs else library()
        leaves = found if isinstance(found, tuple | list) else [found]
        outputs.append([to_numpy(x, "") if isinstance(x, torch.Tensor) else x for x in leaves])
        return outputs[-1]

    return run
