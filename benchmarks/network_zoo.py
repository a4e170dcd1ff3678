"""Whole networks of every family on this CPU against eager PyTorch, one thread, verified.

    python -m benchmarks.network_zoo                          # all
    python -m benchmarks.network_zoo --names unet gpt2_step   # some

Rows go to ``results/network_zoo.jsonl``, one JSON object a line; a network measured again replaces
its row. Each row holds the time of every kernel.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import resource
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.harness.threads import limit_threads

TOLERANCE = 2e-4


def main() -> None:
    options = _arguments()
    limit_threads(1)
    from benchmarks.cases.zoo_networks import NETWORKS
    from benchmarks.harness.common import RESULTS

    path = RESULTS / "network_zoo.jsonl"
    rows = {}
    if path.exists():
        rows = {row["name"]: row for row in map(json.loads, path.read_text().splitlines())}
    for name in options.names or NETWORKS:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
            row = fresh.submit(_row, name, options).result()  # so that the peak is its own
        print(_line(row), flush=True)
        rows[name] = row
        if not options.dry:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))


def _row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the row of one network: medians in us, its speed over eager's, its kernels."""
    import torch

    import tvm_sparse as ts
    from benchmarks.cases.zoo_networks import network
    from benchmarks.harness.common import environment, interleaved, relative_error

    row: dict[str, Any] = {"name": name}
    model, inputs = network(name)
    with torch.no_grad():
        expected = copy.deepcopy(model)(*inputs)
    begin = time.perf_counter()
    try:
        library = ts.compile(model, inputs, config=ts.Config(measure=not options.modelled))
    except Exception as error:  # a network that cannot be compiled is a result
        if options.trace:
            traceback.print_exc()
        return row | {"error": f"{type(error).__name__}: {error}"[:400]}
    row["compile_s"] = round(time.perf_counter() - begin, 1)
    row["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    pairs = zip(_tensors(library(*inputs)), _tensors(expected), strict=True)
    row["relative_error"] = max(relative_error(got, wanted) for got, wanted in pairs)
    if not row["relative_error"] < TOLERANCE:
        return row | {"error": f"wrong by {row['relative_error']:.1e}"}

    def eager() -> Any:
        with torch.inference_mode():
            return model(*inputs)

    times = interleaved(
        {"ours": lambda: library(*inputs), "eager": eager}, options.rounds, options.seconds
    )
    row["us"] = {n: round(t["median_us"], 1) for n, t in times.items()}
    row["speed"] = round(row["us"]["eager"] / row["us"]["ours"], 3)
    row["kernels"] = [
        [k.function, k.layer, k.rule, round(k.us, 1)] for k in library.profile(*inputs, repeat=7)
    ]
    return row | {"environment": environment(1)}


def _tensors(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple | list) else [results]


def _line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['name']:20s} {row['error']}"
    ours, eager = row["us"]["ours"], row["us"]["eager"]
    head = f"{row['name']:20s} {ours:9.0f} us, eager {eager:9.0f}: {row['speed']:5.2f}x"
    head += f", compiled in {row['compile_s']} s, peak {row['peak_gb']} GB"
    total = sum(k[3] for k in row["kernels"])
    shares: dict[tuple[str, str], list[float]] = {}
    for function, _, rule, us in row["kernels"]:
        shares.setdefault((function, str(rule)), []).append(us)
    largest = sorted(shares.items(), key=lambda item: -sum(item[1]))[:14]
    lines = [
        f"    {100 * sum(us) / total:5.1f} %  {len(us):3d} x {sum(us) / len(us):8.1f} us"
        f"  {name} [{rule}]"
        for (name, rule), us in largest
    ]
    return "\n".join([head, *lines])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", default=[], help="of networks; all without")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each round")
    parser.add_argument("--modelled", action="store_true", help="choose by the cost model")
    parser.add_argument("--dry", action="store_true", help="write no results")
    parser.add_argument("--trace", action="store_true", help="print traces of errors")
    return parser.parse_args()


if __name__ == "__main__":
    main()
