"""Whole pruned networks on this CPU against every dense runtime.

    python -m benchmarks.cpu_models --networks resnet50 bert_base --threads 1
    python -m benchmarks.cpu_models --networks resnet50 --step prepare   # compile, time nothing
    python -m benchmarks.cpu_models --networks resnet50 --step time      # under a minute
    python -m benchmarks.cpu_models --networks resnet50 --precision int8
    python -m benchmarks.cpu_models --precision int8 --results cpu_models_amx   # on such a CPU

Compiled programs are kept in ``--place``, and ``results/cpu_models.json`` keeps the rows of
networks measured before, so a run can be cut into parts and only timing needs a quiet machine.
Outputs are verified against PyTorch before anything is timed. Baselines that are not installed
(extra ``bench``) are left out by name, and so are those that end their process with a signal, which
the row has. torch.compile stands for its ahead-of-time form
(AOTInductor); it wants a C++ compiler and takes minutes for a network.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.harness.threads import limit_threads

TOLERANCE = 2e-4
ROUNDED = 1.25
"""Largest norm of an int8 result's error over that of its graph, computed operator by operator.

Both norms are over all inputs. Rounding passes the smallest difference on, so deep networks do not
give the same bytes twice: on one input onnxruntime's optimised DenseNet has 0.9 to 1.2.
"""


def main() -> None:
    options = _arguments()
    limit_threads(options.threads)
    from benchmarks.cases.model_programs import Options, prepare

    for network in options.networks:
        name = f"{network}-batch{options.batch}-{options.threads}threads"
        name += "" if options.precision == "float32" else f"-{options.precision}"
        place = options.place / name
        if options.step != "time":
            made = Options(options.precision, not options.no_measure, not options.no_inductor)
            prepare(network, options.batch, place, made)
        if options.step != "prepare":
            row = measured(network, place, options)
            keep(row, options.results)
            print(json.dumps(summary(row)), flush=True)


def keep(row: dict[str, Any], name: str) -> None:
    """Write ``row`` into the results ``name``, instead of an older one of the same measurement."""
    from benchmarks.harness.common import load, save

    def key(row: dict[str, Any]) -> list[Any]:
        names = ("network", "batch", "threads")
        return [*(row[name] for name in names), row.get("precision", "float32")]

    rows = load(name).get("rows", [])
    others = [r for r in rows if key(r) != key(row)]
    save(name, {"rows": sorted([*others, row], key=key)})


def measured(network: str, place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of the programs in ``place``, verified and timed."""
    import numpy as np

    from benchmarks.cases.model_programs import INPUTS, facts_of, kernel_times, opened, peers
    from benchmarks.crashes import crashes
    from benchmarks.harness.common import PAUSE, by_threads, environment, interleaved
    from benchmarks.harness.kernel_sorts import microseconds

    crashed = crashes(peers(place), place / INPUTS, options.threads)
    x, *others = np.load(place / INPUTS)
    programs = opened(place, x, options.threads, crashed)
    again = (opened(place, other, options.threads, crashed) for other in others)
    errors = verified(network, itertools.chain([programs], again), options.precision)
    runs = {name: program for name, (program, _) in programs.items()}
    pause = PAUSE if options.threads > 1 else 0.0
    times = interleaved(runs, options.rounds, options.seconds, pause)
    facts = {f"ours {f['level']}": (Path(p), f) for p, f in facts_of(place).items()}
    ours = {n: program for n, program in runs.items() if n in facts}
    both = by_threads(ours, options.rounds, options.seconds) if options.threads == 2 else {}
    best = _best(times, [n for n in times if n not in facts and _in(n, options.precision)])
    best_float = _best(times, [n for n in times if n not in facts and _in(n, "float32")])
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
        "precision": options.precision,
        "best_dense": best,
        "best_float": best_float,
        "times": times,
        "ratios": {n: times[best]["median_us"] / times[n]["median_us"] for n in facts},
        "two_over_one": {n: both[n, 1] / both[n, 2] for n in ours if both},
        "errors": errors,
        "crashed": crashed,
        **{key: {n: f[key] for n, (_, f) in facts.items() if key in f} for key in noted},
        "kernels_us": {name: microseconds(kernels) for name, (kernels, _) in waterfalls.items()},
        "layers_total_us": {name: total for name, (_, total) in waterfalls.items()},
        "environment": environment(options.threads),
    }


def verified(
    network: str, programs: Iterable[dict[str, tuple[Any, Path]]], precision: str
) -> dict[str, float]:
    """Return each program's error over all inputs; refuse to go on where one is too large.

    ``programs`` are those of each input, opened one input after another.
    """
    import numpy as np

    from benchmarks.cases.model_programs import EXPECTED, QUANTIZED_EXPECTED
    from benchmarks.harness.common import relative_error

    outputs, folders = defaultdict(list), {}
    for opened in programs:
        for name, (program, folder) in opened.items():
            outputs[name].append(program())
            folders[name] = folder
    errors, wrong = {}, {}
    for name, folder in folders.items():
        expected, got = np.load(folder / EXPECTED), np.stack(outputs[name])
        errors[name], bound = relative_error(got, expected), TOLERANCE
        found = errors[name]
        if _in(name, "int8") or (name.startswith("ours") and precision == "int8"):
            graph = folder if (folder / QUANTIZED_EXPECTED).exists() else folder / "dense"
            rounded = np.load(graph / QUANTIZED_EXPECTED)
            found, bound = (float(np.linalg.norm(a - expected)) for a in (got, rounded))
            bound *= ROUNDED
        if not found < bound:
            wrong[name] = found, bound
    if wrong:
        raise SystemExit(f"{network}: outputs differ from PyTorch's (error, bound): {wrong}")
    return errors


def _in(runtime: str, precision: str) -> bool:
    """Whether a dense runtime computes in ``precision``."""
    from benchmarks.peers.model_runtimes import INT8

    return runtime.endswith(INT8) == (precision == "int8")


def _best(times: dict[str, dict[str, float]], names: list[str]) -> str:
    return min(names, key=lambda name: times[name]["median_us"])


def summary(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is printed of a row."""
    best = row["best_dense"]
    return {
        "network": row["network"],
        "threads": row["threads"],
        "precision": row["precision"],
        "best dense": f"{best} {row['times'][best]['median_us'] / 1e3:.2f} ms",
        **{n: f"{r:.2f}x" for n, r in row["ratios"].items()},
        **row["crashed"],
    }


def _repeat(us: float) -> int:
    """Return how many runs of ``us`` show where the time goes: half a second, or a few."""
    return max(9, min(500, int(0.5e6 / us)))


def _arguments() -> argparse.Namespace:
    from benchmarks.cases.networks import NETWORKS

    place = Path(tempfile.gettempdir(), "tvm-sparse-models")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["float32", "int8"], default="float32")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--step", choices=["all", "prepare", "time"], default="all")
    parser.add_argument("--results", default="cpu_models", help="name of the file of rows")
    parser.add_argument("--place", type=Path, default=place, help="of compiled programs")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each program in a round")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-measure", action="store_true", help="choose by the cost model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
