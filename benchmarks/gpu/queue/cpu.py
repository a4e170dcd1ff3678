"""Step 9: the cores beside the GPU: pruned networks on 4, 8 and 16 threads.

python -m benchmarks.gpu.queue.cpu resnet50 16 float32 FOLDER      # prints the row
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.harness.threads import limit_threads

NETWORKS, PRECISIONS, THREADS = ("resnet50", "bert_base"), ("float32", "int8"), (16, 8, 4)
LEVELS = ("dense", "75 %", "87.5 %")
TINY = "tiny"
LIMIT = 900.0

FOLDERS = ("ops", "formats", "schedules", "passes", "patterns", "selection", "machine")


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each network, precision and count of threads that this machine has."""
    cores = len(os.sched_getaffinity(0))
    networks, counts = ((TINY,), (1,)) if plan.small else (NETWORKS, THREADS)
    for threads in counts:
        for precision in PRECISIONS[: 1 if plan.small else 2]:
            for network in networks:
                skip = "" if threads <= cores else f"this machine has {cores} cores"
                run = partial(_measured, network, threads, precision)
                key = f"{plan.key(*FOLDERS)} {cores}"
                name = f"{network}, {precision}, {threads} threads"
                seconds = 20.0 if plan.small else 240.0
                yield Piece(
                    name, "cpu", key, run, skip=skip, alone=True, seconds=seconds, limit=LIMIT
                )


def _measured(network: str, threads: int, precision: str) -> Iterator[Row]:
    """Yield the row that a process of its own prints: threads are set before libraries load."""
    with tempfile.TemporaryDirectory(prefix="tvm-sparse-cpu-") as place:
        arguments = [network, str(threads), precision, place]
        command = [sys.executable, "-m", "benchmarks.gpu.queue.cpu", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    row = json.loads(done.stdout.splitlines()[-1])
    yield {"case": f"{network}, {precision}, {threads} threads", **row}


def main(network: str, threads: int, precision: str, place: Path) -> None:
    """Print the row of a network, compiled for ``threads`` by the cost model."""
    limit_threads(threads)
    os.environ["TVM_BIND_THREADS"] = "0"
    import torch

    from benchmarks.cases import networks
    from benchmarks.cases.model_programs import Options, prepare
    from benchmarks.cpu_models import measured

    layer = torch.nn.Linear
    networks.NETWORKS[TINY] = lambda batch: (
        torch.nn.Sequential(layer(64, 64), torch.nn.ReLU(), layer(64, 16)),
        torch.randn(batch, 64),
    )
    made = Options(precision, measure=False, inductor=False, only=LEVELS)
    prepare(network, 1, place, made)
    options = argparse.Namespace(
        batch=1, threads=threads, precision=precision, rounds=5, seconds=0.1
    )
    print(json.dumps(measured(network, place, options)))


def tells(rows: list[dict[str, Any]]) -> str:
    """Say the best of ours over the best dense runtime."""
    told = [f"{row['case']} {max(row['ratios'].values()):.2f}x" for row in rows]
    return "; ".join(told)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
