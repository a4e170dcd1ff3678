"""Build one operator for this machine, run it, and make operands that fp32 holds exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_function


def host(cpu: str = "") -> Target:
    """Return this machine's target, or another CPU's of the same architecture."""
    return parse_target(f"cpu:{cpu}" if cpu else "cpu").target


def run(
    func: tirx.PrimFunc,
    operands: list[np.ndarray],
    output_shape: tuple[int, ...],
    target: Target | None = None,
    dtype: str = "float32",
) -> np.ndarray:
    """Return what ``func(*operands, Y)`` writes to ``Y``, which starts as NaN, or 77."""
    return call(build_function(func, target or host()), operands, output_shape, dtype)


def call(
    built: Any, operands: list[np.ndarray], output_shape: tuple[int, ...], dtype: str = "float32"
) -> np.ndarray:
    """Return what the function in ``built`` writes to its last argument; see :func:`run`."""
    start = np.nan if "float" in dtype else 77
    out = tvm.runtime.tensor(np.full(output_shape, start, dtype))
    built["main"](*(tvm.runtime.tensor(np.ascontiguousarray(o)) for o in operands), out)
    return out.numpy()


def integers(rng: np.random.Generator, shape: Any, sparsity: float = 0.0) -> np.ndarray:
    """Return small integers as fp32, about ``sparsity`` of them zero: every sum is exact."""
    values = rng.integers(1, 5, shape) * rng.choice([-1, 1], shape)
    return (values * (rng.random(shape) >= sparsity)).astype(np.float32)


def keep_of_bank(rng: np.random.Generator, shape: tuple[int, int], keep: int) -> np.ndarray:
    """Return small integers with exactly ``keep`` nonzeros in each bank of 16 columns."""
    rows, cols = shape
    kept = rng.random((rows, cols // 16, 16)).argsort(-1) < keep
    return integers(rng, shape) * kept.reshape(shape)
