"""Execute every GPU operator on a CPU, its very PTX: ``python -m benchmarks.gpu.executed``.

Small integers are compared exactly with the naive reference; what is computed and what the
sanitizer says goes to ``results/gpu_executed.json``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import tvm

from benchmarks.gpu.operators import (
    FEATURES,
    HOPPER,
    OPERATORS,
    Operator,
    numerics_of,
    option_of,
    scheduled,
    weight,
)
from benchmarks.gpu.pairs import pointwise_behind
from benchmarks.harness.common import environment, save
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import Change, Emulator
from tvm_sparse.ops.contractions.contraction import reference
from tvm_sparse.selection.cuda import depthwise_options
from tvm_sparse_emulator.report import EmulationReport

ARCH, HOPPER_ARCH = "sm_90", "sm_90a"


@dataclass(frozen=True)
class Executed:
    """What an operator gave: how far it is off, and what was executed and found."""

    error: float
    report: EmulationReport


def execute(operator: Operator, dtype: str, emulator: Emulator, change: Change = str) -> Executed:
    """Run the operator's layer in ``dtype`` on small integers; ``change`` may change its PTX."""
    option = option_of(operator, dtype, emulator.target)
    func, _ = scheduled(option, emulator.target)
    operands, expected = case(operator, option.format, dtype)
    unset = [blank(expected.shape, operands[0].dtype)]
    (out,), report = emulator.run(tvm.IRModule({"main": func}), operands, unset, change)
    wanted = expected.astype(out.dtype).astype(np.float64)
    off = np.abs(out.astype(np.float64) - wanted)
    return Executed(float(np.where(np.isnan(off), np.inf, off).max()), report)


def case(operator: Operator, format: Any, dtype: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Return what the operator takes, and what it must compute."""
    rng = np.random.default_rng(0)
    c = replace(operator.contraction, numerics=numerics_of(dtype))
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    matrix = weight(operator, rng)
    if operator.format == "separable":
        # What is between has at most 150 values of both signs: bf16 holds them all.
        second = pointwise_behind(c, FEATURES)
        taps, values = (
            rng.choice([-1, 0, 1], s).astype(np.float32)
            for s in (c.matrix_shape, second.matrix_shape)
        )
        x = rng.integers(-3, 4, c.input_shape).astype(np.float32)
        between = reference(c, x, taps)
        kernels = zip(format, (taps, values), strict=True)
        arrays = [a for s, k in kernels for a in s.encode(k.astype(kind)).values()]
        return [x.astype(kind), *arrays], reference(second, between, values)
    x = rng.integers(-4, 5, c.input_shape).astype(np.float32)
    x, weights = (x, kind) if c.numerics.floating else (x % 9, np.dtype(c.numerics.weight))
    stored = depthwise_options.diagonal(matrix) if operator.format == "rearranged" else matrix
    arrays = format.encode(stored.astype(weights)).values()
    return [x.astype(kind), *arrays], reference(c, x, matrix)


def blank(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a result of which no element is right, for an input of ``dtype``."""
    if dtype.kind in "iu":
        return np.full(shape, np.iinfo(np.int32).min, np.int32)
    return np.full(shape, np.nan, dtype)


def main() -> int:
    """Execute all operators in all dtypes and write the results; return 1 if one is wrong."""
    rows = []
    for arch, operators in ((ARCH, OPERATORS), (HOPPER_ARCH, HOPPER)):
        with Emulator(parse_target(f"cuda:{arch}").target) as emulator:
            rows += _rows(operators, emulator)
    save("gpu_executed", {"environment": environment(1), "arch": ARCH, "rows": rows})
    return int(any(row["error"] or row["findings"] for row in rows))


def _rows(operators: dict[str, Operator], emulator: Emulator) -> Iterator[dict[str, Any]]:
    for layer, operator in operators.items():
        for dtype in operator.dtypes:
            started = time.perf_counter()
            executed = execute(operator, dtype, emulator)
            launches = executed.report.launches
            yield {
                "layer": layer,
                "dtype": dtype,
                "error": executed.error,
                "findings": [str(finding) for finding in executed.report.findings],
                "instructions": sum(launch.instructions for launch in launches),
                "bank_conflicts": sum(launch.bank_conflicts for launch in launches),
                "shared_passes": sum(launch.shared_passes for launch in launches),
                "load_sectors": sum(launch.load_sectors for launch in launches),
                "load_bytes": sum(launch.load_bytes for launch in launches),
            }
            took = time.perf_counter() - started
            print(f"{layer}, {dtype}: error {executed.error:g}, {took:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
