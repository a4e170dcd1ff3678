"""Parts of networks with open extents beside their own closed programs.

    python -m benchmarks.open_shapes                       # one thread, dense and 75 % zeros
    python -m benchmarks.open_shapes --networks encoder --numbers float32 --sparsities 0.75

Writes ``results/open_shapes.json``: a row for each shape with the milliseconds of the closed
program of that shape and of the one open program, in turns, and their ratio. Rows of networks,
numbers and sparsities that are not asked for stay; each names its machine. Times are the
processor's time of the calling thread: what else a shared machine does counts less than in time
that passes. Every output is checked before anything is timed: floats against eager PyTorch, bytes
against the closed program.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

TOLERANCE = {"float32": 1e-4, "int8": 5e-2}
"""Largest relative error. Of bytes, a rounding that falls to the other side is one step."""


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = "1"
    import torch

    from benchmarks.harness.common import environment, load, save

    torch.set_num_threads(1)
    asked = (options.networks, options.numbers, options.sparsities)
    rows = [row for row in load("open_shapes").get("rows", []) if not _is_asked(row, asked)]
    here = environment(1)
    machine = {"cpu": here["cpu"], "shared": options.shared}
    for name in options.networks:
        for numbers in options.numbers:
            for sparsity in options.sparsities:
                for row in measure(name, numbers, sparsity, options):
                    rows.append(row | machine)
                    about = here | {"clock": "processor time of the thread"}
                    save("open_shapes", {"environment": about, "rows": rows})
                    print(json.dumps(row), flush=True)


def measure(
    name: str, numbers: str, sparsity: float, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield a row for each shape of the network ``name`` in ``numbers`` at ``sparsity``."""
    import torch

    import tvm_sparse as ts
    from benchmarks.cases.open_networks import NETWORKS
    from benchmarks.harness.common import relative_error

    network, config = NETWORKS[name], ts.Config(measure=options.measure)
    torch.manual_seed(0)
    model = network.make().eval().requires_grad_(False)
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()

    def compiled(x: torch.Tensor, **given: Any) -> Any:
        if numbers == "float32":
            return ts.compile(model, (x,), config=config, **given)
        return ts.compile(ts.quantize(model, [(calibration,)], **given), (x,), config=config)

    calibration = torch.randn(*network.example)
    opened = compiled(calibration, dynamic_shapes=(network.dims(),))
    for shape in network.shapes:
        x = torch.randn(*shape)
        calibration = calibration if numbers == "float32" else x
        closed = compiled(x)
        expected = model(x) if numbers == "float32" else closed(x)
        error = max(relative_error(program(x), expected) for program in (closed, opened))
        if numbers == "float32" and error > TOLERANCE[numbers]:
            raise SystemExit(f"{name} {shape}: error {error}")
        one, other = in_turns(lambda c=closed, x=x: c(x), lambda x=x: opened(x), options.rounds)
        yield {
            "network": name,
            "numbers": numbers,
            "sparsity": sparsity,
            "shape": list(shape),
            "closed_ms": one * 1e3,
            "open_ms": other * 1e3,
            "ratio": other / one,
            "error": error,
        }


def _is_asked(row: dict[str, Any], asked: tuple[list[Any], ...]) -> bool:
    values = (row["network"], row["numbers"], row["sparsity"])
    return all(value in choices for value, choices in zip(values, asked, strict=True))


def in_turns(
    one: Callable[[], object], other: Callable[[], object], rounds: int, seconds: float = 0.04
) -> tuple[float, float]:
    """Return the median processor times in seconds of two programs that run in turns."""
    found: tuple[list[float], list[float]] = ([], [])
    begin = time.thread_time()
    one()
    calls = max(1, int(seconds / max(time.thread_time() - begin, 1e-6)))
    for _ in range(rounds):
        for program, times in zip((one, other), found, strict=True):
            program()
            for _ in range(calls):
                begin = time.thread_time()
                program()
                times.append(time.thread_time() - begin)
    return statistics.median(found[0]), statistics.median(found[1])


def _arguments() -> argparse.Namespace:
    from benchmarks.cases.open_networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--numbers", nargs="+", default=["float32", "int8"])
    parser.add_argument("--sparsities", type=float, nargs="+", default=[0.75, 0.0])
    parser.add_argument("--measure", action="store_true", help="measure formats when compiling")
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
