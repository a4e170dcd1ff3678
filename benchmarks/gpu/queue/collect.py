"""Bring the results of a run of the queue into the repository.

    python -m benchmarks.gpu.queue.collect FOLDER      # with queue.jsonl in it

Rows go to ``benchmarks/results/gpu_<part>.json``, those of CPUs to ``cpu_gpu_machine.json``; tuning
records that gain go into the package; ``gpu_queue.json`` says what need not be run again. The costs
of the chip are fitted again, to old and new times (``benchmarks/gpu/fit.py``).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.gpu import contaminated
from benchmarks.gpu.fit import refitted
from benchmarks.gpu.queue.step import Row
from benchmarks.gpu.queue.store import FILE, Line, read
from benchmarks.gpu.results import Results
from benchmarks.gpu.stand_in import NAME
from benchmarks.gpu.timed import measured_on
from benchmarks.harness.common import load, save
from benchmarks.tuning import ship
from tvm_sparse.base.targets import GPUS
from tvm_sparse.selection.cuda import chip as chips

LEDGER = "gpu_queue"
"""File of the results that says which pieces were run, by their keys."""

TUNED = "triton bsr tuned"
"""The library that is tuned: half a minute for a case, which not every run takes."""

OTHER_NAMES = {"cpu": "cpu_gpu_machine"}
"""Parts that are not of a GPU."""


def main(folder: Path) -> int:
    """Collect; return 1 if there is nothing, or nothing of a GPU."""
    lines = list(read(folder / FILE))
    found = {(line["step"], line["piece"]): line for line in lines if "rows" in line}
    if not found:
        print(f"{folder / FILE} holds no rows")
        return 1
    if any(line["environment"]["gpu"] == NAME for line in found.values()):
        print(f"{folder / FILE}: measured on the {NAME}, which is no GPU")
        return 1
    counts = collect(list(found.values()))
    print(", ".join(f"{count} rows of {part}" for part, count in counts.items()))
    # New times show which of the old ones hold some of the host's.
    contaminated.main()
    for line in refitted():
        print(line)
    for name in sorted({line["environment"]["gpu"] for line in found.values()}):
        if not any(measured_on(chips.load(gpu), name) for gpu in GPUS):
            print(f"{name}: no chip of the cost model, see tvm_sparse/selection/cuda/chips")
    return 0


def collect(lines: list[Line]) -> dict[str, int]:
    """Write the rows of ``lines`` into the results; return how many, by part."""
    counts: dict[str, int] = {}
    results: dict[str, Results] = {}
    for line in lines:
        part = line["part"]
        name = OTHER_NAMES.get(part, f"gpu_{part}")
        for row in line["rows"]:
            kept = {key: value for key, value in row.items() if key != "records"}
            there = results.setdefault(part, Results(name))
            there.add(with_tuned(kept, there.rows, line["environment"]), line["environment"])
            counts[part] = counts.get(part, 0) + 1
            _ship(row.get("records", ()))
    known = {(r["step"], r["piece"]): r for r in load(LEDGER).get("rows", [])}
    known |= {(line["step"], line["piece"]): _entry(line) for line in lines}
    save(LEDGER, {"rows": [known[key] for key in sorted(known)]})
    return counts


def with_tuned(row: Row, earlier: Iterable[Row], where: Row) -> Row:
    """Return ``row`` with the tuned library's time of an ``earlier`` row of the case and GPU.

    A run that does not tune it would lose the best of the libraries. ``"kept"`` has its date.
    """
    old = next((one for one in earlier if one["case"] == row["case"]), None)
    if old is None or TUNED in row.get("times", {}) or TUNED not in old.get("times", {}):
        return row
    known = old["environment"]
    alike = known["gpu"] == where["gpu"] and old.get("flush") == row.get("flush")
    if not alike or TUNED in old.get("contaminated", ()):
        return row
    date = old.get("kept", {}).get(TUNED, known["date"])
    return {
        **row,
        "times": {**row["times"], TUNED: old["times"][TUNED]},
        "errors": {**row.get("errors", {}), TUNED: old["errors"][TUNED]},
        "libraries_sparse": sorted({*row["libraries_sparse"], TUNED}),
        "kept": {TUNED: date},
    }


def _entry(line: Line) -> dict[str, Any]:
    """Return what the ledger keeps of a line."""
    kept = ("step", "piece", "key", "session")
    late = [{"contaminated": r["contaminated"]} for r in line["rows"] if "contaminated" in r]
    return {**{name: line[name] for name in kept}, **({"rows": late} if late else {})}


def _ship(records: Any) -> None:
    """Put the best of tuning records into the package."""
    if not records:
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "records.jsonl")
        path.write_text("".join(f"{text}\n" for text in records), encoding="utf-8")
        ship(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
