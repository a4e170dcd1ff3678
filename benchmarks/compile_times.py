"""How long networks take to compile from an empty cache, and how much memory, on one core.

    python -m benchmarks.compile_times                          # all
    python -m benchmarks.compile_times --names resnet50

Rows go to ``results/compile_times.jsonl``; a network compiled again replaces its row. The time is
that of the processor, of all threads and processes: other programs on the machine add little to it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.harness.threads import limit_threads

BALANCED = "75 %, balanced"
"""Zeros as many in each bank of 16 columns, where a layer has so many."""

NETWORKS = ("resnet50", "bert_base", "mobilenet_v2", "convnext_tiny")
LEVELS = ("dense", "75 %", BALANCED)


def main() -> None:
    options = _arguments()
    limit_threads(1)
    from benchmarks.harness.common import RESULTS

    path = RESULTS / "compile_times.jsonl"
    found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    rows = {(row["name"], row["level"]): row for row in found}
    for name in options.names:
        for level in options.levels:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
                row = fresh.submit(_row, name, level).result()  # so that the peak is its own
            print(row, flush=True)
            rows[name, level] = row
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


def _row(name: str, level: str) -> dict[str, Any]:
    import tvm_sparse as ts
    from benchmarks.cases.networks import NETWORKS as MEASURED
    from benchmarks.cases.networks import build, prune_balanced
    from benchmarks.cases.zoo_networks import network
    from benchmarks.harness.common import environment
    from benchmarks.layers_zoo import pruned

    if name in MEASURED:
        model, x = build(name)
        inputs: tuple[Any, ...] = (x,)
    else:
        model, inputs = network(name)
    if level == BALANCED:
        prune_balanced(model, 4)
    elif level != "dense":
        pruned(model)
    start = _peak()
    began, used = time.perf_counter(), _processor_seconds()
    ts.compile(model, inputs, config=ts.Config(cache=False))
    return {
        "name": name,
        "level": level,
        "processor_s": round(_processor_seconds() - used, 1),
        "wall_s": round(time.perf_counter() - began, 1),
        "peak_gb": round(_peak(), 2),
        "before_gb": round(start, 2),
        "environment": environment(1),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _processor_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--levels", nargs="+", default=LEVELS, choices=LEVELS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
