"""How long the tables of a plan take for large networks, and how much memory.

    python -m benchmarks.plans_large                     # resnet50, bert_base
    python -m benchmarks.plans_large --networks bert_base

Weights and calibration data are random, so the losses say nothing; times and memory do not depend
on them. Each network has a process of its own, whose peak memory is told.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.harness.threads import limit_threads

NAME = "plans_large"
NETWORKS = ("resnet50", "bert_base")
SPEEDUP, ANOTHER = 3.0, 2.0
BATCHES, SAMPLES = 2, 2
"""Of calibration data."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--one", choices=NETWORKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limit_threads(1)
    if arguments.one:
        print(json.dumps(measured(arguments.one)))
        return
    from benchmarks.harness.common import environment, load, save

    rows = {row["network"]: row for row in load(NAME).get("rows", [])}
    for name in arguments.networks:
        command = [sys.executable, "-m", "benchmarks.plans_large", "--one", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows[name] = json.loads(done.stdout.splitlines()[-1])
        print(rows[name], flush=True)
        save(NAME, {"environment": environment(1), "rows": [rows[key] for key in sorted(rows)]})


def measured(name: str) -> dict[str, Any]:
    """Return the row of one network, planned in this process."""
    import torch

    import tvm_sparse as ts
    from benchmarks.cases.networks import build

    torch.set_num_threads(1)
    model, x = build(name)
    calibration = [torch.randn(SAMPLES, *x.shape[1:]) for _ in range(BATCHES)]
    begin, used = time.perf_counter(), time.process_time()
    plan = ts.plan(
        model, calibration, speedup=SPEEDUP, example_inputs=x, config=ts.Config(cache=False)
    )
    seconds, used = time.perf_counter() - begin, time.process_time() - used
    begin = time.perf_counter()
    plan.again(speedup=ANOTHER)
    again = time.perf_counter() - begin
    return {
        "network": name,
        "weights": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": round(seconds, 1),
        "processor_seconds": round(used, 1),
        "again_seconds": round(again, 3),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
    }


if __name__ == "__main__":
    main()
