"""The measured grid, before and today: what the executor counts, and what the model says.

    python -m benchmarks.gpu.modelled_grid [PATTERN...]     # "balanced", "block", …; or all

*Before* is the kernel that was measured first: its tile, its format, without the changes of
:mod:`tvm_sparse.ops.cuda.mends`. *Today* is what the compiler chooses now for the same weight; its
measured time stands beside it where a GPU took that very kernel. Both are modelled behind a flush
that leaves clean lines. Writes ``results/gpu_modelled_grid.json``; each case is saved when it is
done, and left out by the next call while the compiler and the times stay the same.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.gpu.cases import Case, grid
from benchmarks.gpu.prepare import KERNEL_CODE, Kernel, code_version
from benchmarks.gpu.shrunk import counts
from benchmarks.gpu.timed import DTYPE, demand_of, format_of, mends_of, rows
from benchmarks.harness.common import environment, load, save
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.ops.cuda.mends import in_use, using
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda import chip as chips
from tvm_sparse.selection.cuda.chip import Chip
from tvm_sparse.selection.cuda.demand import seconds

NAME, CHIP = "gpu_modelled_grid", "h200"
DESIGN = ("kernel", "format", "tile", "warps")
"""What of a record says which kernel it is."""

Record = dict[str, Any]
Counts = dict[str, float]


def main(patterns: list[str]) -> None:
    on, target = chips.load(CHIP), parse_target(f"cuda:{CHIP}").target
    measured = {row["case"]: row for row in rows(on, "grid")}
    found = {row["case"]: row for row in load(NAME).get("rows", [])}
    code = code_version(*KERNEL_CODE)
    with Emulator(target) as emulator:
        counted = partial(_counted, emulator=emulator, known={})
        for case in grid():
            row, old = measured.get(case.name), found.get(case.name, {})
            if row is None or (patterns and case.pattern.split()[0] not in patterns):
                continue
            if old.get("code") != code:
                record = today(Kernel(case, case.format), target)
                line = _line(row, (first(case, row, old), record), on, counted)
                found[case.name] = {"case": case.name, **line, "code": code}
                print(found[case.name], file=sys.stderr, flush=True)
            found[case.name]["again_us"] = again(case, row, found[case.name]["today"])
            ordered = [found[one.name] for one in grid() if one.name in found]
            save(NAME, {"chip": on.name, "environment": environment(1), "rows": ordered})


def first(case: Case, row: Record, old: Record) -> Record:
    """Return the kernel that was measured first, and its time in us as ``measured_us``."""
    if old:
        kernel = "tile" if "tile" in old["before"] else "stream"
        return {"kernel": kernel, **old["before"], "measured_us": old["measured_us"]}
    own = row["times"][f"ours {case.format}"]["median_us"]
    return {**row["kernels"][case.format], "measured_us": own}


def again(case: Case, row: Record, kernel: Record) -> float | None:
    """Return the last measured time in us if it is that of ``kernel``."""
    record = row["kernels"][case.format]
    alike = all(record.get(key) == kernel.get(key) for key in DESIGN)
    return row["times"][f"ours {case.format}"]["median_us"] if alike else None


def _line(
    row: Record, sides: tuple[Record, Record], on: Chip, counted: Callable[[Record, Record], Counts]
) -> Record:
    """Return both sides of a row: which kernel, its modelled time, its counts."""
    line: Record = {"measured_us": sides[0]["measured_us"]}
    for side, record in zip(("before", "today"), sides, strict=True):
        kept = {key: record[key] for key in DESIGN if key in record}
        time = seconds(demand_of(row, record, on), on)
        line[side] = {**kept, "us": round(time * 1e6, 2), "counts": counted(row, record)}
    return line


def today(kernel: Kernel, target: Any) -> Record:
    """Return the record of the kernel that the compiler builds now."""
    option = kernel.option(target)
    tile = {"tile": list(dataclasses.astuple(option.tile))} if option.tile else {}
    warps = {"warps": list(dataclasses.astuple(option.warps))} if option.warps else {}
    about = {"kernel": option.kernel, "format": repr(option.format)}
    return {**about, **tile, **warps, "mends": dataclasses.asdict(in_use())}


def _counted(row: Record, record: Record, emulator: Emulator, known: dict[str, Counts]) -> Counts:
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
