"""The measured grid, before and today: what the executor counts, and what the model says.

    python -m benchmarks.gpu.modelled_grid [PATTERN...]     # "balanced", "block", …; or all

*Before* is the kernel that was measured: its tile, its format, without the changes of
:mod:`tvm_sparse.ops.cuda.mends`. *Today* is what the compiler chooses now for the same weight.
Writes ``results/gpu_modelled_grid.json``; each case is saved when it is done, and left out by the
next call while its kernels stay the same.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from benchmarks.gpu.cases import grid
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.shrunk import counts
from benchmarks.gpu.timed import DTYPE, demand_of, format_of, mends_of, rows
from benchmarks.harness.common import environment, load, save
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.ops.cuda.mends import in_use, using
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda import chip as chips
from tvm_sparse.selection.cuda.demand import seconds

NAME, CHIP = "gpu_modelled_grid", "h200"
Record = dict[str, Any]


def main(patterns: list[str]) -> None:
    on, target = chips.load(CHIP), parse_target(f"cuda:{CHIP}").target
    measured = {row["case"]: row for row in rows(on, "grid")}
    found = {row["case"]: row for row in load(NAME).get("rows", [])}
    known: dict[str, dict[str, float]] = {}
    with Emulator(target) as emulator:
        for case in grid():
            row = measured.get(case.name)
            if row is None or (patterns and case.pattern.split()[0] not in patterns):
                continue
            before = dict(row["kernels"][case.format])
            after = today(Kernel(case, case.format), target)
            line: dict[str, Any] = {
                "case": case.name,
                "measured_us": row["times"][f"ours {case.format}"]["median_us"],
            }
            for side, record in (("before", before), ("today", after)):
                counted = _counted(row, record, emulator, known)
                time = seconds(demand_of(row, record, on), on, written=True)
                kept = {key: record[key] for key in ("format", "tile", "warps") if key in record}
                line[side] = {**kept, "us": round(time * 1e6, 2), "counts": counted}
            found[case.name] = line
            print(line, file=sys.stderr, flush=True)
            ordered = [found[one.name] for one in grid() if one.name in found]
            what = {"chip": on.name, "environment": environment(1), "rows": ordered}
            save(NAME, what)


def today(kernel: Kernel, target: Any) -> Record:
    """Return the record of the kernel that the compiler builds now."""
    option = kernel.option(target)
    tile = {"tile": list(dataclasses.astuple(option.tile))} if option.tile else {}
    warps = {"warps": list(dataclasses.astuple(option.warps))} if option.warps else {}
    about = {"kernel": option.kernel, "format": repr(option.format)}
    return {**about, **tile, **warps, "mends": dataclasses.asdict(in_use())}


def _counted(
    row: Record, record: Record, emulator: Emulator, known: dict[str, dict[str, float]]
) -> dict[str, float]:
    """Return the counts of a kernel; what does the same in a step is executed once."""
    mends = mends_of(record)
    tile = ThreadBlockTile(*record["tile"]) if "tile" in record else None
    format, (dtype,) = format_of(record["format"]), set(DTYPE.findall(row["case"]))
    height = min(row["rows"], tile.rows) if tile else row["rows"]
    key = f"{record['format']} {tile} {height} {mends}"
    if key not in known:
        with using(mends):
            known[key] = counts(format, tile, row["rows"], dtype, emulator)
    return known[key]


if __name__ == "__main__":
    main(sys.argv[1:])
