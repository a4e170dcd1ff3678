"""Write the demonstration's figures into README.md, from benchmarks/results/demo.json."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "demo.json"
README = ROOT / "README.md"
PLACE = re.compile(r"(<!-- figures: [^\n]*-->\n).*?(<!-- /figures -->)", re.DOTALL)


def row(level: dict[str, Any], dense_accuracy: float) -> str:
    """Return one sparsity level as a line of a Markdown table."""
    latency = {name: taken["median_us"] for name, taken in level["latency"].items()}
    cells = [
        f"{level['sparsity']:.1%}",
        f"{dense_accuracy:.1%}",
        f"{level['accuracy']['compiled']:.1%}",
        f"{level['max_abs_error']:.1e}",
        *(f"{latency[name]:.0f}" for name in ("sparse", "dense", "pytorch")),
        f"{level['speedup']:.2f}x",
    ]
    return f"| {' | '.join(cells)} |"


def figures(record: dict[str, Any]) -> str:
    """Return the table and the sentence below it for a result of ``tvm-sparse demo --json``."""
    lines = [
        "| zeros | accuracy, dense | compiled | max abs error | sparse us | own dense us "
        "| PyTorch eager us | over own dense |",
        "|" + "---|" * 8,
        *(row(level, record["accuracy_dense"]) for level in record["levels"]),
    ]
    machine = record["environment"]
    versions = machine["versions"]
    kib = {name: round(size / 1024) for name, size in record["size"].items()}
    calls = record["levels"][0]["latency"]["sparse"]["calls"]
    threads = machine["torch_threads"]
    text = (
        f"One image a call, median of {calls} interleaved calls, {threads} threads, "
        f"{machine['cpu']}, torch {versions['torch']}, TVM {versions['apache-tvm']}; ratios "
        "travel between machines, microseconds do not. "
        f"Artifact: {kib['sparse']} KiB, compiled dense {kib['dense']} KiB, "
        f"PyTorch parameters {kib['model']} KiB."
    )
    return "\n".join([*lines, "", text])


def refreshed(readme: str, record: dict[str, Any]) -> str:
    """Return ``readme`` with the figures of ``record`` between its two markers."""
    result, count = PLACE.subn(lambda m: f"{m[1]}{figures(record)}\n{m[2]}", readme)
    if count != 1:
        raise SystemExit(f"error: README.md has {count} places for figures, expected 1")
    return result


def main() -> int:
    """Rewrite README.md."""
    record = json.loads(RESULTS.read_text(encoding="utf-8"))
    README.write_text(refreshed(README.read_text(encoding="utf-8"), record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
