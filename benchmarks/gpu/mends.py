"""What each mend of the CUDA kernels changes in the executor: ``python -m benchmarks.gpu.mends``.

Counts of the PTX that is executed on a CPU, not times: ``results/gpu_mends.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from benchmarks.gpu.executed import ARCH, execute
from benchmarks.gpu.operators import OPERATORS, Operator
from benchmarks.harness.common import environment, save
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.mends import OFF, Mends, using
from tvm_sparse_emulator.report import Launch

CLAMPED = replace(OFF, clamped_loads=True)
COUNTS = (
    *("instructions", "shared_passes", "bank_conflicts", "barriers", "waits"),
    *("load_bytes", "load_sectors"),
)


@dataclass(frozen=True)
class Case:
    """A mend, the layer that it aims at, and what is turned on."""

    mend: str
    operator: Operator
    dtype: str
    on: Mends


def wide(operator: Operator, columns: int, rows: int = 64) -> Operator:
    """Return ``operator`` with other rows and columns, for 64 features."""
    return replace(operator, contraction=Contraction((rows,), columns, 64))


CASES = (
    Case("long steps", wide(OPERATORS["dense"], 976), "float16", replace(OFF, step_padding=0.08)),
    Case("long steps", wide(OPERATORS["dense"], 784), "float32", replace(OFF, step_padding=0.08)),
    *(
        Case("lanes apart", OPERATORS[layer], "float32", replace(OFF, lanes_apart=True))
        for layer in ("balanced", "joint", "balanced convolution")
    ),
    *(
        Case(
            "words beside",
            wide(OPERATORS[f"balanced, N = {rows}"], 8192, rows),
            "float16",
            replace(OFF, words_beside=True),
        )
        for rows in (1, 8)
    ),
    *(
        Case("clamped loads", wide(OPERATORS["balanced, N = 8"], 1500, 8), dtype, CLAMPED)
        for dtype in ("float16", "float32")
    ),
    *(
        Case("parts", OPERATORS[layer], "float16", replace(OFF, parts=4))
        for layer in ("dense in parts", "balanced in parts")
    ),
    Case(
        "segments", OPERATORS["balanced, N = 8, in parts"], "float32", replace(OFF, segments=True)
    ),
    *(
        Case("held banks", OPERATORS[layer], dtype, replace(OFF, held_banks=True))
        for layer in ("balanced", "unstructured convolution", "joint")
        for dtype in ("float16", "float32")
    ),
)


def counted(case: Case, mends: Mends, emulator: Emulator) -> dict[str, Any]:
    """Return what the kernel of a case does with ``mends``; it must be right."""
    with using(mends):
        executed = execute(case.operator, case.dtype, emulator)
    if executed.error or executed.report.findings:
        raise SystemExit(f"{case}: error {executed.error}, {executed.report.findings}")
    return {name: sum(_count(one, name) for one in executed.report.launches) for name in COUNTS}


def _count(launch: Launch, name: str) -> int:
    return int(getattr(launch, name))


def main() -> None:
    rows = []
    with Emulator(parse_target(f"cuda:{ARCH}").target) as emulator:
        for case in CASES:
            before, after = (counted(case, mends, emulator) for mends in (OFF, case.on))
            layer, shape = case.operator.layer, case.operator.contraction
            named = {"mend": case.mend, "layer": layer, "dtype": case.dtype}
            size = {"rows": list(shape.lead), "matrix": list(shape.matrix_shape)}
            rows.append({**named, **size, "before": before, "after": after})
            print(named, before, after, flush=True)
    save(
        "gpu_mends",
        {"environment": environment(threads=1), "what": "counts, not times", "rows": rows},
    )


if __name__ == "__main__":
    main()
