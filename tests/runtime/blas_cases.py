"""Products of small integers by cuBLASLt's stand-in: a program for ``test_blas.py``.

It runs with the emulated driver and prints, for each case of its argument, the status and whether
the result is the right one (or untouched, where nothing is computed).
"""

from __future__ import annotations

import ctypes
import json
import sys

import ml_dtypes  # noqa: F401  NumPy learns of bfloat16
import numpy as np

from tvm_sparse_runtime import engine, gpu

WORKSPACE = 1 << 20
BIAS, RESIDUAL, RELU = 1, 2, 4
NOBODY = 77
"""What the output holds before."""


def arrays(case):
    """Return the operands of a case, and what is to come out, all of small integers."""
    rng = np.random.default_rng(0)
    rows, features, columns = case["size"]
    inner, outer = np.dtype(case["dtype"]), np.dtype(case["out_dtype"])

    def made(*shape):
        return rng.integers(-3, 4, shape).astype("f4")

    given = {"x": made(rows, columns), "w": made(columns, features + case["padding"])}
    given |= {"bias": made(features), "residual": made(rows, features)}
    wanted = given["x"] @ given["w"][:, :features]
    wanted += given["bias"] * bool(case["epilogue"] & BIAS)
    wanted += given["residual"] * bool(case["epilogue"] & RESIDUAL)
    wanted = np.maximum(wanted, 0) if case["epilogue"] & RELU else wanted
    types = {"x": inner, "w": inner}
    typed = {name: array.astype(types.get(name, outer)) for name, array in given.items()}
    return typed, wanted.astype(outer)


def run(case):
    """Return the status of a call, and whether the output is what it must be.

    ``shapes`` of a case are calls with a smaller workspace each.
    """
    given, wanted = arrays(case)
    out = np.full(wanted.shape, NOBODY, wanted.dtype)
    room = np.zeros(WORKSPACE, np.uint8)
    placed = {
        name: gpu.copy(engine.tensor(array), "cuda")
        for name, array in {**given, "out": out, "workspace": room}.items()
    }
    names = ("x", "w", "bias", "residual", "out", "workspace")
    pointers = [ctypes.c_void_p(placed[name].data_ptr()) for name in names]
    rows, features, columns = case["size"]
    pitch, dtypes = features + case["padding"], (case["dtype"], case["out_dtype"])
    for place in range(case.get("shapes", 1)):
        workspace = case["workspace"] - 256 * place
        status = engine.function("tvm_sparse.blas.linear")(
            *pointers, workspace, rows, features, columns, pitch, *dtypes, case["epilogue"]
        )
    got = gpu.copy(placed["out"], "cpu")
    found = np.empty_like(wanted)
    ctypes.memmove(found.ctypes.data, got.data_ptr(), found.nbytes)
    return status, bool(np.array_equal(found, out if status else wanted))


if __name__ == "__main__":
    gpu.require(["sm_90"], "the stand-in")
    print(json.dumps([run(case) for case in json.loads(sys.argv[1])]))
