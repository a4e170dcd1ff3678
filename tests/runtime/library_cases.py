"""A call of a library's stand-in by the runtime, for programs of ``test_blas`` and its like.

They run with the emulated driver and print, for each case of their argument, the status and whether
the result is the right one (or untouched, where nothing is computed).
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  NumPy learns of bfloat16
import numpy as np

from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import environment
from tvm_sparse_runtime import engine, gpu

WORKSPACE = 1 << 20
BIAS, RESIDUAL, RELU = 1, 2, 4
NOBODY = 77
"""What the output holds before."""

NAMES = ("x", "w", "bias", "residual", "out", "workspace")


def small(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return small integers."""
    return rng.integers(-3, 4, shape).astype("f4")


def behind(case: Mapping[str, Any], wanted: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
    """Return ``wanted`` with what the case has behind it."""
    wanted = wanted + given["bias"] * bool(case["epilogue"] & BIAS)
    wanted += given["residual"] * bool(case["epilogue"] & RESIDUAL)
    return np.maximum(wanted, 0) if case["epilogue"] & RELU else wanted


def called(
    function: str,
    case: Mapping[str, Any],
    given: Mapping[str, np.ndarray],
    wanted: np.ndarray,
    numbers: Sequence[int],
    stored: Callable[[Any], Any] = lambda w: w,
) -> tuple[int, bool]:
    """Return the status of a call, and whether the output is what it must be.

    ``shapes`` of a case are calls with a smaller workspace each; ``offset`` moves the input. The
    library reads weights as ``stored``.
    """
    out = np.full(wanted.shape, NOBODY, wanted.dtype)
    room = np.zeros(WORKSPACE, np.uint8)
    placed = {
        name: gpu.copy(engine.tensor(array), "cuda")
        for name, array in {**given, "out": out, "workspace": room}.items()
    }
    placed["w"] = stored(placed["w"])
    pointers = [ctypes.c_void_p(placed[name].data_ptr()) for name in NAMES]
    pointers[0].value += case.get("offset", 0)
    for place in range(case.get("shapes", 1)):
        workspace = case["workspace"] - 256 * place
        status = engine.function(function)(
            *(*pointers, workspace, *numbers),
            *(case["dtype"], case["out_dtype"], case["epilogue"]),
        )
    got = gpu.copy(placed["out"], "cpu")
    found = np.empty_like(wanted)
    ctypes.memmove(found.ctypes.data, got.data_ptr(), found.nbytes)
    return status, bool(np.array_equal(found, out if status else wanted))


def print_all(run: Callable[[Mapping[str, Any]], tuple[int, bool]]) -> None:
    """Print the results of the cases that are the program's argument."""
    gpu.require(["sm_90"], "the stand-in")
    print(json.dumps([run(case) for case in json.loads(sys.argv[1])]))


def run(program: str, cases: Sequence[Mapping[str, Any]], **variables: str) -> Any:
    """Return what a program prints, and what it says on the standard error stream."""
    own = environment(parse_target("cuda:sm_90").target)
    done = subprocess.run(
        [sys.executable, "-m", f"tests.runtime.{program}", json.dumps(cases)],
        env={**os.environ, **own, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [tuple(one) for one in json.loads(done.stdout)], done.stderr
