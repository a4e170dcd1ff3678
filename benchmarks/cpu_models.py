"""Whole pruned networks on this CPU against every dense runtime.

    python -m benchmarks.cpu_models --networks resnet50 bert_base --threads 1
    python -m benchmarks.cpu_models --networks resnet50 --step prepare   # compile, time nothing
    python -m benchmarks.cpu_models --networks resnet50 --step time      # under a minute

Compiled programs are kept in ``--place``, and ``results/cpu_models.json`` keeps the rows of
networks measured before, so a run can be cut into parts and only timing needs a quiet machine.
Outputs are verified against PyTorch before anything is timed. Baselines that are not installed
(extra ``bench``) are left out by name. torch.compile stands for its ahead-of-time form
(AOTInductor); it wants a C++ compiler and takes minutes for a network.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

TOLERANCE = 2e-4


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    from benchmarks.model_programs import prepare

    for network in options.networks:
        name = f"{network}-batch{options.batch}-{options.threads}threads"
        place = options.place / name
        if options.step != "time":
            measure, inductor = not options.no_measure, not options.no_inductor
            prepare(network, options.batch, place, measure=measure, inductor=inductor)
        if options.step != "prepare":
            row = measured(network, place, options)
            keep(row)
            print(json.dumps(summary(row)), flush=True)


def keep(row: dict[str, Any]) -> None:
    """Write ``row`` into the results instead of an older one of the same measurement."""
    from benchmarks.common import load, save

    rows = load("cpu_models").get("rows", [])
    keys = ("network", "batch", "threads")
    others = [r for r in rows if any(r[k] != row[k] for k in keys)]
    save("cpu_models", {"rows": sorted([*others, row], key=lambda r: [r[k] for k in keys])})


def measured(network: str, place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of the programs in ``place``, verified and timed."""
    import numpy as np

    from benchmarks.common import PAUSE, by_threads, environment, interleaved, relative_error
    from benchmarks.kernel_sorts import microseconds
    from benchmarks.model_programs import EXPECTED, INPUT, facts_of, kernel_times, opened

    programs = opened(place, options.threads)
    errors = {
        name: relative_error(program(), np.load(folder / EXPECTED))
        for name, (program, folder) in programs.items()
    }
    wrong = {name: e for name, e in errors.items() if not e < TOLERANCE}
    if wrong:
        raise SystemExit(f"{network}: outputs differ from PyTorch's: {wrong}")
    runs = {name: program for name, (program, _) in programs.items()}
    pause = PAUSE if options.threads > 1 else 0.0
    times = interleaved(runs, options.rounds, options.seconds, pause)
    facts = {f"ours {f['level']}": (Path(p), f) for p, f in facts_of(place).items()}
    x = np.load(place / INPUT)
    ours = {n: program for n, program in runs.items() if n in facts}
    both = by_threads(ours, options.rounds, options.seconds) if options.threads == 2 else {}
    dense = {n: t["median_us"] for n, t in times.items() if n not in facts}
    best = min(dense, key=dense.__getitem__)
    ratios = {n: dense[best] / times[n]["median_us"] for n in facts}
    waterfalls = {
        name: kernel_times(folder, f, x, options.threads, _repeat(times[name]["median_us"]))
        for name, (folder, f) in facts.items()
    }
    noted = (
        "compile_cpu_seconds",
        "compile_peak_bytes",
        "compile_code_bytes",
        "inference_peak_bytes",
        "weight_bytes",
        "chosen",
    )
    return {
        "network": network,
        "batch": options.batch,
        "threads": options.threads,
        "best_dense": best,
        "times": times,
        "ratios": ratios,
        "two_over_one": {n: both[n, 1] / both[n, 2] for n in ours if both},
        "errors": errors,
        **{key: {n: f[key] for n, (_, f) in facts.items() if key in f} for key in noted},
        "kernels_us": {name: microseconds(kernels) for name, (kernels, _) in waterfalls.items()},
        "layers_total_us": {name: total for name, (_, total) in waterfalls.items()},
        "environment": environment(options.threads),
    }


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is printed of a row."""
    best = row["best_dense"]
    return {
        "network": row["network"],
        "threads": row["threads"],
        "best dense": f"{best} {row['times'][best]['median_us'] / 1e3:.2f} ms",
        **{n: f"{r:.2f}x" for n, r in row["ratios"].items()},
    }


def _repeat(us: float) -> int:
    """Return how many runs of ``us`` show where the time goes: half a second, or a few."""
    return max(9, min(500, int(0.5e6 / us)))


def _arguments() -> argparse.Namespace:
    from benchmarks.networks import NETWORKS

    place = Path(tempfile.gettempdir(), "tvm-sparse-models")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--step", choices=["all", "prepare", "time"], default="all")
    parser.add_argument("--place", type=Path, default=place, help="of compiled programs")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each program in a round")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-measure", action="store_true", help="choose by the cost model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
