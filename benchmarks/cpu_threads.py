"""What a second thread gives a single sparse layer on this CPU.

    python -m benchmarks.cpu_threads

One process runs every operator with one thread and with two, in turns, so that noise meets both.
Writes ``results/cpu_threads.json`` after every layer and pattern; rows that are there already are
kept (``--again`` measures them anew). Outputs are checked against float64 before they are timed.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

LAYERS = "linear 128x1024 to 1024", "linear 128x768 to 3072", "linear 128x4096 to 4096"


def main() -> None:
    options = _arguments()
    os.environ["TVM_NUM_THREADS"] = "2"
    os.environ.setdefault("TVM_BIND_THREADS", "0")  # a core that others use is not stuck to
    from benchmarks.cases.kernel_cases import CASES, patterns
    from benchmarks.harness.common import load, save

    rows = load("cpu_threads").get("rows", [])
    for case in (case for case in CASES if case.name in options.cases):
        for pattern in patterns(case):
            key = (case.name, pattern)
            if not options.again and any((r["case"], r["pattern"]) == key for r in rows):
                continue
            fresh = measure(case, pattern, options.rounds, options.seconds)
            rows = [r for r in rows if (r["case"], r["pattern"]) != key] + fresh
            save("cpu_threads", {"rows": rows})
            print(*key, *(f"{r['sparsity']:.4g}: {r['ratio']:.2f}x" for r in fresh), flush=True)


def measure(case: Any, pattern: str, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Return a row for each sparsity: medians in microseconds by threads, and their ratio."""
    from benchmarks.cases.kernel_cases import patterns
    from benchmarks.harness.common import THREADS, by_threads, environment
    from benchmarks.harness.kernel_race import Race

    masks, levels = patterns(case)[pattern]
    race = Race(case, max(THREADS))
    for sparsity in levels:
        race.add_sparse(sparsity, masks(race.scores, sparsity), libraries=False)
    programs = race.programs
    times = by_threads(programs, rounds, seconds)
    rows = []
    for sparsity in levels:
        ours = [program for program in programs if program[0] == sparsity]
        fastest = min(ours, key=lambda program: times[program, 1])
        one, two = (times[fastest, n] for n in THREADS)
        rows.append(
            {
                "case": case.name,
                "pattern": pattern,
                "sparsity": sparsity,
                "format": fastest[2],
                "median_us": {"1": one, "2": two},
                "ratio": one / two,
                "environment": environment(max(THREADS)),
            }
        )
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=LAYERS, help="names of layers")
    parser.add_argument("--again", action="store_true", help="measure rows that exist anew")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.02, help="of each program in a round")
    return parser.parse_args()


if __name__ == "__main__":
    main()
