"""Single sparse layers on this CPU against the best dense and the best sparse library.

    python -m benchmarks.cpu_kernels --threads 1            # main rows, under ten minutes
    python -m benchmarks.cpu_kernels --threads 1 --all
    python -m benchmarks.cpu_kernels --quick --cases "linear 128x1024 to 1024"

    python -m benchmarks.cpu_kernels --quick --cpu haswell --name cpu_kernels_avx2
    python -m benchmarks.cpu_kernels --numerics int8 --threads 2

Writes ``results/cpu_kernels.json`` (of bytes and bfloat16 ``results/narrow_kernels.json``) after
every layer and pattern; rows that are there already are
kept, so that a run can be interrupted (``--again`` measures them anew). Every output is checked
against float64 before anything is timed. Baselines that are not installed (extra ``bench``) are
left out.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchmarks.harness.threads import limit_threads

QUICK = "linear 128x1024 to 1024", "conv 3x3 14x14, 256 to 256", "depthwise 3x3 14x14, 576"


def main() -> None:
    options = _arguments()
    limit_threads(options.threads)
    import torch

    from benchmarks.cases.kernel_cases import patterns
    from benchmarks.harness.common import load, save

    torch.set_num_threads(options.threads)
    rows = load(options.name).get("rows", [])
    for case in _chosen(options):
        for pattern in options.patterns or patterns(case):
            if pattern not in patterns(case):
                continue
            key = (case.name, pattern, options.threads, options.numerics)
            if not options.again and any(_key(row) == key for row in rows):
                continue
            fresh = measure(case, pattern, options)
            rows = [row for row in rows if _key(row) != key] + fresh
            save(options.name, {"rows": rows})
            for row in fresh:
                print(json.dumps(summary(row)), flush=True)


def measure(case: Any, pattern: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each sparsity of ``pattern``; all run in turns with the libraries."""
    race = prepare(case, pattern, options.threads, options.cpu)
    race.run(options.rounds, options.seconds)
    return [row | {"numerics": options.numerics} for row in rows_of(race, pattern)]


def prepare(case: Any, pattern: str, threads: int, cpu: str = "") -> Any:
    """Return the race of all programs of a layer and a pattern, built and checked, not timed."""
    from benchmarks.cases.kernel_cases import patterns
    from benchmarks.harness.kernel_race import Race

    masks, levels = patterns(case)[pattern]
    race = Race(case, threads, cpu)
    race.add_dense()
    for sparsity in levels:
        race.add_sparse(sparsity, masks(race.scores, sparsity))
    return race


def rows_of(race: Any, pattern: str) -> list[dict[str, Any]]:
    """Return the rows of a race that was run."""
    from benchmarks.cases.kernel_cases import patterns
    from benchmarks.harness.common import environment
    from benchmarks.harness.kernel_race import DENSE, best

    rows, dense = [], race.ours(DENSE)
    for sparsity in patterns(race.case)[pattern][1]:
        formats = race.ours(sparsity)
        format, _ = best(formats)
        row = dict(
            case=race.case.name,
            pattern=pattern,
            sparsity=sparsity,
            threads=race.threads,
            format=format,
            flops=race.case.contraction.flops(),
            ours_sparse=formats[format],
            ours_dense=dense[best(dense)[0]],
            libraries_dense=race.libraries(DENSE),
            libraries_sparse=race.libraries(sparsity),
            **race.code(sparsity, format),
            error=race.error,
            environment=environment(race.threads),
        )
        rows.append(row)
    return rows


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return the ratios that are printed of a row."""
    from benchmarks.harness.kernel_race import best

    ours = row["ours_sparse"]["median_us"]
    name, dense = best(row["libraries_dense"])
    found = {
        "case": row["case"],
        "pattern": row["pattern"],
        "sparsity": row["sparsity"],
        "ours": f"{ours:.1f} us ({row['format']})",
        "over best dense": f"{dense / ours:.2f}x ({name} {dense:.1f} us)",
        "our dense over it": f"{dense / row['ours_dense']['median_us']:.2f}x",
    }
    if row["libraries_sparse"]:
        name, sparse = best(row["libraries_sparse"])
        found["over best sparse"] = f"{sparse / ours:.2f}x ({name})"
    return found


def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
    # Older rows are of float32.
    return row["case"], row["pattern"], row["threads"], row.get("numerics", "float32")


def _chosen(options: argparse.Namespace) -> list[Any]:
    from benchmarks.cases.kernel_cases import cases

    found = cases(options.numerics)
    if options.cases:
        return [case for case in found if case.name in options.cases]
    if options.quick:
        return [case for case in found if case.name in QUICK]
    return [case for case in found if case.main or options.all]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--numerics", choices=("float32", "int8", "bfloat16"), default="float32")
    parser.add_argument("--cases", nargs="+", help="names of layers; default: the main ones")
    parser.add_argument("--cpu", default="", help="build ours for another CPU, such as haswell")
    parser.add_argument("--patterns", nargs="+", help="names of patterns; default: all")
    parser.add_argument("--all", action="store_true", help="also the layers that are not main")
    parser.add_argument("--quick", action="store_true", help="three layers, a second a row")
    parser.add_argument("--again", action="store_true", help="measure rows that exist anew")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, default=0.03, help="of each program in a round")
    parser.add_argument("--name", help="of the result file")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 5 if options.quick else 15
    if options.name is None:
        options.name = "cpu_kernels" if options.numerics == "float32" else "narrow_kernels"
    return options


if __name__ == "__main__":
    main()
