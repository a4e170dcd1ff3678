"""What the compiler's kernels take on Hopper by the model, beside what was foretold for them.

    python -m benchmarks.gpu.modelled_hopper

8192 x 8192 in fp16, code for ``sm_90a`` on an H200. *Foretold* are times that were derived before
any such kernel was there, of the formats alone; 25 % off was allowed. *Measured* is what an H200
took with a kernel of that kind: by ``wgmma`` one that was written by hand, else the compiler's. The
compiler's by ``wgmma`` were not measured. Writes ``results/gpu_modelled_hopper.json``.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.cases import SIZE, Case
from benchmarks.harness.common import environment, load, save
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import bank_options, options

TARGET = "cuda:sm_90a"
ROWS = (1, 8, 16, 32, 64, 256, 1024, 4096)
BANKS, BLOCKS, QUADS = "balanced", "block 64x64", "2:4"
HOPPER = "wgmma"
FIND = {BANKS: bank_options.balanced, BLOCKS: options.block, QUADS: options.two_four}

FORETOLD: dict[tuple[str, float], tuple[float, ...]] = {
    (QUADS, 0.5): (39.0, 39.0, 31.0, 31.0, 31.0, 35.0, 136.0),
    (BANKS, 0.5): (35.0, 35.0, 35.0, 35.0, 35.5),
    (BANKS, 0.75): (20.0, 20.0, 23.0, 23.0, 23.4),
    (BANKS, 0.9): (10.5, 10.5, 15.6, 15.6, 18.3),
    (BANKS, 0.95): (8.8, 8.8, 14.0, 14.0, 18.3),
    (BLOCKS, 0.5): (29.5, 29.5, 30.0, 30.0, 30.0, 37.0, 134.0, 521.0),
    (BLOCKS, 0.75): (20.0, 20.0, 20.0, 20.0, 21.0, 22.0, 69.0, 263.0),
    (BLOCKS, 0.9): (12.0, 12.0, 12.3, 12.3, 13.0, 16.0, 31.0, 108.0),
    (BLOCKS, 0.95): (8.5, 8.5, 8.8, 8.8, 9.3, 12.0, 20.0, 57.0),
}
"""Microseconds by pattern and zeros, for the first of :data:`ROWS`; behind them a library is
faster, or was expected to be."""


def main() -> None:
    rows = list(modelled())
    save("gpu_modelled_hopper", {"environment": environment(1), "target": TARGET, "rows": rows})


def modelled() -> Iterator[dict[str, Any]]:
    """Yield each cell: the fastest kernel of the pattern, its modelled time, the foretold one."""
    target, taken = parse_target(TARGET).target, measured()
    for (pattern, zeros), foretold in FORETOLD.items():
        scan = Scan(Case("Hopper", _product(1), pattern, zeros).weight())
        for rows, us in zip(ROWS, foretold, strict=False):
            found = FIND[pattern](_product(rows), scan, target)
            best = min((o for o in found if not isinstance(o, str)), key=lambda o: o.seconds)
            yield {
                "pattern": pattern,
                "zeros": zeros,
                "rows": rows,
                "kernel": best.kernel,
                "us": round(best.seconds * 1e6, 2),
                "foretold_us": us,
                "measured_us": taken.get((pattern, zeros, rows, best.kernel)),
            }
        print(pattern, zeros, file=sys.stderr)


def measured() -> dict[tuple[str, float, int, str], float]:
    """Return microseconds of an H200 by pattern, zeros, rows of activations and kind of kernel."""
    taken: dict[tuple[str, float, int, str], float] = {}
    for row in load("gpu_hopper")["rows"]:
        key = (row["pattern"], row["sparsity"], row["rows"], HOPPER)
        taken[key] = min(taken.get(key, math.inf), row["times"]["by hand"]["median_us"])
    for row in load("gpu_grid")["rows"]:
        zeros = re.fullmatch(rf"{SIZE}x{SIZE}, float16, .* (\d+)%", row["case"])
        if zeros:
            for name, record in row["kernels"].items():
                key = (row["pattern"], int(zeros[1]) / 100, row["rows"], record["kernel"])
                taken[key] = row["times"][f"ours {name}"]["median_us"]
    return taken


def _product(rows: int) -> Contraction:
    return Contraction((rows,), SIZE, SIZE, numerics=Numerics.uniform("float16"))


if __name__ == "__main__":
    main()
