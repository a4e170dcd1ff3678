"""Parts of networks with open extents beside their own closed programs.

    python -m benchmarks.open_shapes                       # one thread, dense and 75 % zeros
    python -m benchmarks.open_shapes --networks encoder --numbers float32 --sparsities 0.75
    python -m benchmarks.open_shapes --threads 2 --peers   # beside onnxruntime and OpenVINO, too

Writes ``results/open_shapes.json``: a row for each shape with the milliseconds of the closed
program of that shape and of the one open program, in turns, and their ratio. ``--peers`` adds those
of dense runtimes in the same numbers, with files of that shape and with one open file. Rows of
networks, numbers, sparsities and threads that are not asked for stay; each names its machine and
its clock. On one thread that is the processor's time of the caller: what else a shared machine does
counts less in it. Where several threads or other runtimes compute, it is the time that passes.
Every output is checked before anything is timed: floats against eager PyTorch, bytes of ours
against the closed program.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.threads import limit_threads

TOLERANCE = {"float32": 1e-4, "int8": 5e-2}
"""Largest relative error. Of bytes, a rounding that falls to the other side is one step."""

SECONDS = 0.04
"""How long a program runs in each of its turns."""

CLOCKS = {
    "processor time of the thread": time.thread_time_ns,
    "time that passes": time.perf_counter_ns,
}
"""By what rows call them."""


def main() -> None:
    options = _arguments()
    limit_threads(options.threads)
    import torch

    from benchmarks.harness.common import environment, load, save

    torch.set_num_threads(options.threads)
    asked = (options.networks, options.numbers, options.sparsities, [options.threads])
    rows = [row for row in load("open_shapes").get("rows", []) if not _is_asked(row, asked)]
    here = environment(options.threads)
    machine = {"cpu": here["cpu"], "shared": options.shared}
    for name in options.networks:
        for numbers in options.numbers:
            for sparsity in options.sparsities:
                for row in measure(name, numbers, sparsity, options):
                    rows.append(row | machine)
                    save("open_shapes", {"environment": here, "rows": rows})
                    print(json.dumps(row), flush=True)


def measure(
    name: str, numbers: str, sparsity: float, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Yield a row for each shape of the network ``name`` in ``numbers`` at ``sparsity``."""
    import torch

    import tvm_sparse as ts
    from benchmarks.cases.open_networks import NETWORKS
    from benchmarks.harness.common import relative_error
    from benchmarks.peers.open_files import OpenFile

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
    known = {"network": name, "numbers": numbers, "sparsity": sparsity, "threads": options.threads}
    with tempfile.TemporaryDirectory() as folder:
        given = (model, calibration, network.dims(), numbers, Path(folder))
        peers = OpenFile(*given) if options.peers else None
        for shape in network.shapes:
            x = torch.randn(*shape)
            calibration = calibration if numbers == "float32" else x
            closed = compiled(x)
            expected = model(x) if numbers == "float32" else closed(x)
            programs = {"closed": lambda c=closed, x=x: c(x), "open": lambda x=x: opened(x)}
            programs |= peers.programs(x, options.threads) if peers else {}
            errors = {p: relative_error(run(), expected) for p, run in programs.items()}
            if numbers == "float32" and max(errors.values()) > TOLERANCE[numbers]:
                raise SystemExit(f"{name} {shape}: errors {errors}")
            error = max(errors[which] for which in ("closed", "open"))
            yield {**known, "shape": list(shape), **_timed(programs, options), "error": error}


def _timed(programs: dict[str, Callable[[], Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return the milliseconds of ours, of others, and the clock."""
    from benchmarks.harness.common import PAUSE, interleaved

    passes = options.peers or options.threads > 1
    clock, pause = list(CLOCKS)[passes], PAUSE if options.threads > 1 else 0.0
    taken = interleaved(programs, options.rounds, SECONDS, pause, CLOCKS[clock])
    times = {name: found["median_us"] / 1e3 for name, found in taken.items()}
    one, other = (times.pop(which) for which in ("closed", "open"))
    own = {"closed_ms": one, "open_ms": other, "ratio": other / one, "clock": clock}
    return own | ({"peers_ms": times} if times else {})


def _is_asked(row: Mapping[str, Any], asked: tuple[list[Any], ...]) -> bool:
    values = (row["network"], row["numbers"], row["sparsity"], row["threads"])
    return all(value in choices for value, choices in zip(values, asked, strict=True))


def _arguments() -> argparse.Namespace:
    from benchmarks.cases.open_networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--numbers", nargs="+", default=["float32", "int8"])
    parser.add_argument("--sparsities", type=float, nargs="+", default=[0.75, 0.0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", action="store_true", help="time onnxruntime and OpenVINO, too")
    parser.add_argument("--measure", action="store_true", help="measure formats when compiling")
    parser.add_argument("--shared", action="store_true", help="say that others used the machine")
    return parser.parse_args()


if __name__ == "__main__":
    main()
