"""Single sparse layers on this CPU against the best dense and the best sparse library.

    python -m benchmarks.cpu_kernels --threads 1            # main rows, under ten minutes
    python -m benchmarks.cpu_kernels --threads 1 --all
    python -m benchmarks.cpu_kernels --quick --cases "linear 128x1024 to 1024"

Writes ``results/cpu_kernels.json`` after every layer and pattern; rows that are there already are
kept, so that a run can be interrupted (``--again`` measures them anew). Every output is checked
against float64 before anything is timed. Baselines that are not installed (extra ``bench``) are
left out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

TOLERANCE = 1e-4
BEHIND = 2.0
"""Modelled cost over the best one beyond which a storage is not tried."""
QUICK = "linear 128x1024 to 1024", "conv 3x3 14x14, 256 to 256", "depthwise 3x3 14x14, 576"


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    import torch

    from benchmarks.common import RESULTS, save
    from benchmarks.kernel_cases import patterns

    torch.set_num_threads(options.threads)
    path = RESULTS / f"{options.name}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    for case in _chosen(options):
        for pattern in patterns(case):
            key = (case.name, pattern, options.threads)
            if not options.again and any(_key(row) == key for row in rows):
                continue
            fresh = list(measure(case, pattern, options))
            rows = [row for row in rows if _key(row) != key] + fresh
            save(options.name, {"rows": rows})
            for row in fresh:
                print(json.dumps(row["summary"]), flush=True)


def measure(case: Any, pattern: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each sparsity of ``pattern``; all of them run in turns with the libraries."""
    from benchmarks.common import environment, interleaved, relative_error
    from benchmarks.kernel_cases import patterns
    from benchmarks.kernel_peers import as_array, dense_peers, sparse_peers
    from tvm_sparse.ops.candidates import dense_candidate
    from tvm_sparse.ops.contraction import reference
    from tvm_sparse.targets import parse_target

    c, target = case.contraction, parse_target("cpu").target
    rng = np.random.default_rng(0)
    x = rng.standard_normal(c.input_shape, dtype=np.float32)
    _clear_borders(case, x)
    full = rng.standard_normal(c.matrix_shape, dtype=np.float32)
    masks, levels = patterns(case)[pattern]
    expected = {1.0: reference(c, x, full)}
    programs: dict[tuple[str, float], Any] = {
        ("peer", name): run for name, run in dense_peers(case, x, full, options.threads).items()
    }
    programs["ours", 0.0] = _program(case, dense_candidate(c, target), full, x)
    chosen = {}
    for sparsity in levels:
        matrix = full * masks(np.abs(full), sparsity)
        expected[sparsity] = reference(c, x, matrix)
        chosen[sparsity] = _best(case, matrix, x, target)
        programs["ours", sparsity] = _program(case, chosen[sparsity], matrix, x)
        for name, run in sparse_peers(case, x, matrix).items():
            programs[f"sparse {name}", sparsity] = run
    errors = {}
    for (name, level), run in programs.items():
        truth = expected[level if level in expected else 1.0]
        errors[name, level] = relative_error(as_array(run()), truth)
    wrong = {key: error for key, error in errors.items() if not error < TOLERANCE}
    if wrong:
        raise SystemExit(f"{case.name}, {pattern}: outputs differ from the reference: {wrong}")
    times = interleaved(programs, options.rounds, options.seconds)
    dense = {level: t for (name, level), t in times.items() if name == "peer"}
    for sparsity in levels:
        start = "sparse "
        sparse = {
            name.removeprefix(start): t
            for (name, level), t in times.items()
            if name.startswith(start) and level == sparsity
        }
        yield _row(
            case=case.name,
            pattern=pattern,
            sparsity=sparsity,
            threads=options.threads,
            storage=chosen[sparsity].name,
            flops=c.flops(),
            ours_sparse=times["ours", sparsity],
            ours_dense=times["ours", 0.0],
            libraries_dense=dense,
            libraries_sparse=sparse,
            error=max(errors.values()),
            environment=environment(options.threads),
        )


def _row(**row: Any) -> dict[str, Any]:
    """Add the ratios that tables print."""
    ours = row["ours_sparse"]["median_us"]

    def best(times: dict[str, dict[str, float]]) -> tuple[str, float]:
        return min(((n, t["median_us"]) for n, t in times.items()), key=lambda pair: pair[1])

    name, dense = best(row["libraries_dense"])
    summary = {
        "case": row["case"],
        "pattern": row["pattern"],
        "sparsity": row["sparsity"],
        "ours": f"{ours:.1f} us ({row['storage']})",
        "over best dense": f"{dense / ours:.2f}x ({name} {dense:.1f} us)",
        "our dense over it": f"{dense / row['ours_dense']['median_us']:.2f}x",
    }
    if row["libraries_sparse"]:
        name, sparse = best(row["libraries_sparse"])
        summary["over best sparse"] = f"{sparse / ours:.2f}x ({name})"
    return {**row, "summary": summary}


def _best(case: Any, matrix: np.ndarray, x: np.ndarray, target: Any) -> Any:
    """Return the fastest of the storages that fit and are not modelled far behind the best."""
    from tvm_sparse.ops.candidates import sparse_candidates
    from tvm_sparse.passes.measure import measure as time_functions

    offered = sparse_candidates(case.contraction, matrix, target)
    found = [k for k in offered if not isinstance(k, str)]
    found = [k for k in found if k.cost <= BEHIND * min(k.cost for k in found)]
    functions = {k.name: (k.func, list(k.storage.encode(matrix).values())) for k in found}
    times = time_functions(functions, x, case.contraction.output_shape, target)
    return min(found, key=lambda k: times[k.name])


def _program(case: Any, candidate: Any, matrix: np.ndarray, x: np.ndarray) -> Any:
    """Return the built operator on its operands; it walks through copies of weights if cold."""
    import tvm

    from benchmarks.kernel_peers import copies
    from tvm_sparse.schedules.build import build_function
    from tvm_sparse.targets import parse_target

    run = build_function(candidate.func, parse_target("cpu").target)["main"]
    arrays = list(candidate.storage.encode(matrix).values())
    number = copies(sum(a.nbytes for a in arrays), case.cold)
    weights = itertools.cycle([[tvm.runtime.tensor(a) for a in arrays] for _ in range(number)])
    data = tvm.runtime.tensor(x)
    out = tvm.runtime.empty(case.contraction.output_shape, "float32", tvm.cpu())

    def call() -> Any:
        run(data, *next(weights), out)
        return out

    return call


def _clear_borders(case: Any, x: np.ndarray) -> None:
    """Zero the padding of a convolution's input."""
    if case.contraction.taps:
        size, _, _, padding = case.window
        inner = slice(padding, padding + size)
        kept = x[:, inner, inner].copy()
        x[:] = 0
        x[:, inner, inner] = kept


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["case"], row["pattern"], row["threads"]


def _chosen(options: argparse.Namespace) -> list[Any]:
    from benchmarks.kernel_cases import CASES

    if options.cases:
        return [case for case in CASES if case.name in options.cases]
    if options.quick:
        return [case for case in CASES if case.name in QUICK]
    return [case for case in CASES if case.main or options.all]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", nargs="+", help="names of layers; default: the main ones")
    parser.add_argument("--all", action="store_true", help="also the layers that are not main")
    parser.add_argument("--quick", action="store_true", help="three layers, a second a row")
    parser.add_argument("--again", action="store_true", help="measure rows that exist anew")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, default=0.03, help="of each program in a round")
    parser.add_argument("--name", default="cpu_kernels", help="of the result file")
    options = parser.parse_args()
    if options.rounds is None:
        options.rounds = 5 if options.quick else 15
    return options


if __name__ == "__main__":
    main()
