"""Detector and packers on large linear layers: the native library against NumPy.

``python -m benchmarks.detector`` prints a table and writes ``results/detector.json``. Times are CPU
seconds of one thread, the least of some calls. The NumPy column runs the same detector and formats
on the NumPy references of the native functions.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np

from benchmarks.harness.common import environment, save
from tvm_sparse.formats import balanced, block, reference
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.patterns import reference as scans
from tvm_sparse.patterns import scan
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Pattern
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.detector import detect
from tvm_sparse.patterns.joint import Joint
from tvm_sparse.patterns.unstructured import Unstructured

SHAPES = ((4096, 4096), (11008, 4096))
CASES: tuple[tuple[Pattern, float, type | None], ...] = (
    (Balanced(4, 2), 0.5, None),
    (Balanced(16, 4), 0.75, BalancedFormat),
    (Block(16, 16), 0.8, BlockFormat),
    (Joint(Balanced(16, 4), Block(16, 16)), 0.85, None),
    (Joint(Balanced(512, 256), Block(4, 4)), 0.75, None),
    (Unstructured(), 0.75, None),
)


@contextmanager
def numpy_only() -> Iterator[None]:
    """Let detector and formats call the NumPy references instead of the native library."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(scan, "library", lambda: scans))
        for module in (balanced, block):
            stack.enter_context(patch.object(module, "library", lambda: reference))
        yield


def seconds(program: Callable[[], object], calls: int) -> float:
    """Return the least CPU time of ``program()``."""
    taken = []
    for _ in range(calls):
        start = time.process_time()
        program()
        taken.append(time.process_time() - start)
    return min(taken)


def weight_of(pattern: Pattern, shape: tuple[int, int], sparsity: float) -> np.ndarray:
    """Return random fp32 weights, pruned; blocks are ranked by scores of their own."""
    rng = np.random.default_rng(0)
    scores = rng.random(shape, np.float32)
    if isinstance(pattern, Joint):
        coarse = 1 - (1 - sparsity) / (pattern.bank.keep / pattern.bank.bank)
        others = rng.random(shape, np.float32)
        mask = pattern.bank.project(scores) & pattern.block.project(others, coarse)
    else:
        mask = pattern.project(scores, sparsity)
    return (scores + np.float32(0.5)) * mask


def measure(
    pattern: Pattern, sparsity: float, format: type | None, shape: tuple[int, int], numpy: bool
) -> dict[str, object]:
    """Return the times of one layer."""
    weight = weight_of(pattern, shape, sparsity)
    programs: dict[str, Callable[[], object]] = {"detect": lambda: detect(weight)}
    if format is not None:
        sized = format.of(weight, pattern)  # type: ignore[attr-defined]
        programs["pack"] = lambda: sized.encode(weight)
    found = detect(weight).best
    row: dict[str, object] = {
        "shape": list(shape),
        "pattern": pattern.describe(),
        "sparsity": float((weight == 0).mean()),
        "found": found.summary(),
    }
    for name, program in programs.items():
        row[f"{name}_s"] = seconds(program, 5)
        if numpy:
            with numpy_only():
                row[f"{name}_numpy_s"] = seconds(program, 1)
    return row


def line(row: dict[str, object]) -> str:
    """Return one line of the printed table."""

    def cell(name: str) -> str:
        native, plain = row.get(f"{name}_s"), row.get(f"{name}_numpy_s")
        if not isinstance(native, float):
            return f"{'-':>30}"
        if not isinstance(plain, float):
            return f"{1e3 * native:>8.0f} ms {'':>19}"
        return f"{1e3 * native:>8.0f} ms {1e3 * plain:>9.0f} ms {plain / native:>4.0f}x"

    shape = "x".join(str(extent) for extent in row["shape"])  # type: ignore[attr-defined]
    return f"{shape:<12}{row['pattern']:<46}{cell('detect')}  {cell('pack')}"


def main() -> None:
    """Run all layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-numpy", action="store_true", help="time the native library only")
    options = parser.parse_args()
    detect(np.eye(2))  # loads the library
    rows = []
    print(f"{'layer':<58}{'detect: native, NumPy':>30}  {'pack: native, NumPy':>30}")
    for shape in SHAPES:
        for pattern, sparsity, format in CASES:
            rows.append(measure(pattern, sparsity, format, shape, not options.no_numpy))
            print(line(rows[-1]), flush=True)
    path = save("detector", {"environment": environment(1), "rows": rows})
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
