"""Rows of the GPU benchmark on disk, saved as soon as they are there."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from typing import Any

from benchmarks.gpu import device
from benchmarks.harness import common


class Results:
    """The rows of one file of results, and the cases that failed when they were last tried."""

    def __init__(self, name: str) -> None:
        self.name = name
        content = common.load(self.name)
        self.rows: list[dict[str, Any]] = content.get("rows", [])
        self.failed: dict[str, str] = content.get("failed", {})

    @property
    def done(self) -> set[str]:
        """Names of the cases that are measured, and whose times are nobody's host's."""
        return {row["case"] for row in self.rows if "contaminated" not in row}

    def add(self, row: dict[str, Any], where: dict[str, Any] | None = None) -> None:
        """Save one row with what a reader needs to believe it, in place of an older one.

        ``where`` it was measured: here and now if not given.
        """
        own = {**row, "environment": where or environment()}
        cases = [one["case"] for one in self.rows]
        if row["case"] in cases:
            self.rows[cases.index(row["case"])] = own
        else:
            self.rows.append(own)
        self.failed.pop(row["case"], None)
        self._save()
        tell(f"{self.name}: {row['case']}")

    def fail(self, case: str, error: Exception) -> None:
        """Save why ``case`` has no row."""
        self.failed[case] = f"{type(error).__name__}: {error}"[:400]
        self._save()
        tell(f"{self.name}: {case}: {self.failed[case]}")

    def _save(self) -> None:
        failed = {"failed": self.failed} if self.failed else {}
        common.save(self.name, {"rows": self.rows, **failed})


def environment() -> dict[str, Any]:
    """Return GPU, driver's CUDA, versions, date and how it was timed."""
    names = ("tvm-sparse", "apache-tvm", "torch", "triton")
    versions, about = {}, device.current().about()
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        **{name: about[name] for name in ("gpu", "cuda") if name in about},
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "timing": "CUDA events, graphs or calls behind a sleep, programs in turns",
        "versions": versions,
    }


def tell(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)
