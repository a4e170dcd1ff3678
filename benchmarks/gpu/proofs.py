"""What is known about the GPU kernels without a GPU: machine code, and modelled regimes.

    python -m benchmarks.gpu.proofs [compiled] [regimes]

Needs a CUDA compiler. Writes ``results/gpu_compiled.json`` and ``results/gpu_regimes.json``.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import tvm

from benchmarks.gpu.cases import SPARSITIES, Case
from benchmarks.gpu.operators import HOPPER, OPERATORS, option_of, scheduled
from benchmarks.harness.common import save
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_context
from tvm_sparse.schedules.cuda import nvrtc
from tvm_sparse.schedules.cuda.instructions import instruction_counts
from tvm_sparse.schedules.cuda.resources import kernel_resources
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda.chip import chip

ARCHS = ("sm_80", "sm_89", "sm_90", "sm_120")
SIZE = 2048
ROWS = (1, 8, 32, 64, 256, 4096)
PATTERNS = ("balanced", "block 32x32", "block 64x64")


def main(wanted: Sequence[str]) -> None:
    date = {"date": time.strftime("%Y-%m-%d")}
    if "compiled" in wanted:
        save("gpu_compiled", {**date, "archs": ARCHS, "rows": list(compiled())})
    if "regimes" in wanted:
        save("gpu_regimes", {**date, "size": SIZE, "rows": list(regimes())})


def compiled() -> Iterator[dict[str, Any]]:
    """Yield registers, stack and instructions of every operator, dtype and architecture."""
    for layer, operator in (OPERATORS | HOPPER).items():
        for dtype in operator.dtypes:
            for arch in (operator.arch,) if operator.arch else ARCHS:
                target = parse_target(f"cuda:{arch}").target
                option = option_of(operator, dtype, target)
                func, rule = scheduled(option, target)
                with build_context(target):
                    module = tvm.compile(tvm.IRModule({"main": func}), target=target).mod
                source = module.imports[0].inspect_source()
                cubin = nvrtc.compile_source(source, arch)
                used = kernel_resources(cubin).values()
                yield {
                    "layer": layer,
                    "kernel": option.kernel,
                    "dtype": dtype,
                    "arch": arch,
                    "rule": rule,
                    "registers": max(kernel.registers for kernel in used),
                    "stack": max(kernel.stack for kernel in used),
                    "instructions": dict(sum(instruction_counts(cubin).values(), Counter())),
                }
        print(layer, file=sys.stderr)


def regimes() -> Iterator[dict[str, Any]]:
    """Yield what the model chooses for a square fp16 weight by pattern, sparsity and rows."""
    target = parse_target("cuda:sm_90").target
    for pattern in PATTERNS:
        for sparsity in SPARSITIES:
            c = Contraction((1,), SIZE, SIZE, numerics=Numerics.uniform("float16"))
            matrix = Case("regime", c, pattern, sparsity).weight()
            for rows in ROWS:
                c = Contraction((rows,), SIZE, SIZE, numerics=Numerics.uniform("float16"))
                dense = options.dense(c, target)
                found = [
                    o for o in options.sparse(c, Scan(matrix), target) if not isinstance(o, str)
                ]
                best = min([dense, *found], key=lambda option: option.seconds)
                if dense.seconds < chip(target).margin * best.seconds:
                    best = dense
                yield {
                    "pattern": pattern,
                    "sparsity": sparsity,
                    "rows": rows,
                    "format": best.name,
                    "kernel": best.kernel,
                    "us": best.seconds * 1e6,
                    "dense_us": dense.seconds * 1e6,
                }
            print(pattern, sparsity, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:] or ("compiled", "regimes"))
