"""Which networks of timm, torchvision and transformers ts.compile takes, right, and how fast.

    python -m benchmarks.trial --source timm --mode pruned
    python -m benchmarks.trial --source torchvision --names r3d_18 --mode int8
    python -m benchmarks.trial --source transformers --mode open

Rows go to ``results/trial.jsonl``, one a network and mode; a network tried again replaces its row.
Each network has a process of its own, so that one that crashes or hangs is a row, too.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import signal
import time
import warnings
from typing import Any

from benchmarks.harness.threads import limit_threads

MODES = ("dense", "pruned", "int8", "open")
TOLERANCE = {"dense": 5e-4, "pruned": 5e-4, "open": 5e-4, "int8": 1.5}
"""The largest error of a right answer; what it is relative to says :func:`_error`."""


def main() -> None:
    options = _arguments()
    limit_threads(1)
    from benchmarks.cases.trial_names import NAMES
    from benchmarks.harness.common import RESULTS

    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tvm_sparse", "benchmarks.cases.trial_networks"])
    path = RESULTS / "trial.jsonl"
    found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    rows = {(row["source"], row["name"], row["mode"]): row for row in found}
    for name in options.names or NAMES[options.source]:
        row = _tried(processes, options.source, name, options.mode, options.seconds)
        print({key: value for key, value in row.items() if key != "environment"}, flush=True)
        rows[options.source, name, options.mode] = row
        if not options.dry:
            path.write_text("".join(json.dumps(rows[key]) + "\n" for key in sorted(rows)))


def _tried(processes: Any, source: str, name: str, mode: str, seconds: float) -> dict[str, Any]:
    """Return the row of a network, whatever becomes of its process."""
    here, there = processes.Pipe(duplex=False)
    process = processes.Process(target=_send, args=(there, source, name, mode))
    process.start()
    there.close()
    try:
        row = here.recv() if here.poll(seconds) else {"error": f"took more than {seconds:g} s"}
    except EOFError:
        process.join()
        code = process.exitcode or 0
        row = {"error": signal.Signals(-code).name if code < 0 else f"exit status {code}"}
    process.kill()
    process.join()
    return {"source": source, "name": name, "mode": mode, **row}


def _send(there: Any, source: str, name: str, mode: str) -> None:
    try:
        row = _row(source, name, mode)
    except Exception as error:  # a network that cannot be compiled is a result
        row = {"error": f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:400]}
    there.send(row)


def _row(source: str, name: str, mode: str) -> dict[str, Any]:
    """Return what became of a network: its error, its time over eager's, what takes it."""
    import torch

    import tvm_sparse as ts
    from benchmarks.cases import trial_open
    from benchmarks.cases.trial_networks import network, prune
    from benchmarks.harness import common

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with torch.inference_mode(False), torch.no_grad():
        model, inputs = network(source, name)
        if mode != "dense":
            prune(model)
        plain = _tensors(copy.deepcopy(model)(**inputs))
        begin = time.perf_counter()
        program = ts.quantize(model, [inputs]) if mode == "int8" else None
        quantized = time.perf_counter() - begin
        expected = plain if program is None else _tensors(program.module()(**inputs))
        begin = time.perf_counter()
        open_axes = {"dynamic_shapes": trial_open.axes(inputs)} if mode == "open" else {}
        source_of = (model, (), inputs) if program is None else (program,)
        library = ts.compile(*source_of, **open_axes)
        row = {"compile_s": round(time.perf_counter() - begin, 1), "slow": library.slow}
        if program is not None:
            row["quantize_s"] = round(quantized, 1)
        error = _error(_tensors(library(**inputs)), expected, plain)
        for size in trial_open.SIZES if mode == "open" else ():
            given = trial_open.call(inputs, *size)
            wanted = _tensors(model(**given))
            error = max(error, _error(_tensors(library(**given)), wanted, wanted))
        row["error_relative"] = float(f"{error:.2g}")
        if not error < TOLERANCE[mode]:
            return row | {"error": f"wrong by {error:.1e}"}
        programs = {"ours": lambda: library(**inputs), "eager": lambda: model(**inputs)}
        times = common.interleaved(programs, 7, 0.05)
    us = {who: round(taken["median_us"], 1) for who, taken in times.items()}
    row |= {"us": us, "speed": round(us["eager"] / us["ours"], 3)}
    return row | {"environment": common.environment(1)}


def _error(got: list[Any], expected: list[Any], plain: list[Any]) -> float:
    """Return the largest error of an output: relative to its largest value.

    A quantized network rounds ties otherwise, which later layers enlarge. Its error is the root of
    the mean square, relative to what quantizing itself costs: no less than the tolerance of floats,
    for outputs that it does not change.
    """
    from benchmarks.harness.common import relative_error

    if plain is expected:
        pairs = zip(got, expected, strict=True)
        return max(relative_error(ours, wanted) for ours, wanted in pairs)
    least = TOLERANCE["pruned"]
    return max(
        _size(ours - wanted) / max(_size(exact - wanted), _size(wanted) * least, 1e-30)
        for ours, wanted, exact in zip(got, expected, plain, strict=True)
        if wanted.is_floating_point()
    )


def _size(x: Any) -> float:
    """Return the root of the mean square."""
    return float(x.square().mean()) ** 0.5


def _tensors(result: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _arguments() -> argparse.Namespace:
    from benchmarks.cases.trial_names import NAMES

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default="timm", choices=NAMES)
    parser.add_argument("--names", nargs="+", default=[], help="of networks; without: a list")
    parser.add_argument("--mode", default="pruned", choices=MODES)
    parser.add_argument("--seconds", type=float, default=120, help="limit of a network")
    parser.add_argument("--dry", action="store_true", help="write no results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
