"""Whole pruned networks on this CPU against every dense runtime.

    python -m benchmarks.cpu_models --networks resnet50 bert_base --threads 1

Writes ``results/cpu_models.json``; networks measured before keep their rows, so a run can be cut
into parts. Outputs are verified against PyTorch before anything is timed. Baselines that are not
installed (extra ``bench``) are left out by name.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

TOLERANCE = 2e-4
LEVELS = {"75 %": 4, "87.5 %": 2, "93.75 %": 1}


def main() -> None:
    options = _arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    from benchmarks.common import RESULTS, environment, save

    path = RESULTS / "cpu_models.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    for network in options.networks:
        row = measure(network, options)
        key = (row["network"], row["batch"], row["threads"])
        rows = [r for r in rows if (r["network"], r["batch"], r["threads"]) != key] + [row]
        save("cpu_models", {"rows": rows})
        print(json.dumps(row["summary"]), flush=True)
    print(f"environment of this part: {environment(options.threads)}", file=sys.stderr)


def measure(network: str, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    import tvm_sparse as ts
    from benchmarks.common import environment, interleaved, relative_error
    from benchmarks.networks import build

    torch.set_num_threads(options.threads)
    programs: dict[str, Callable[[], object]] = {}
    errors, compile_seconds, layers, weight_bytes = {}, {}, {}, {}
    model, x = build(network, options.batch)
    with torch.no_grad():
        expected = model(x).numpy()
    for name, program in baselines(model, x, options.threads, not options.no_inductor).items():
        errors[name] = relative_error(program(), expected)
        programs[name] = program
    for level, prune in _levels(network).items():
        pruned, x = build(network, options.batch)
        prune(pruned)
        with torch.no_grad():
            expected = pruned(x).numpy()
        start = time.perf_counter()
        library = ts.compile(pruned, (x,), config=ts.Config(measure=not options.no_measure))
        name = f"ours {level}"
        compile_seconds[name] = time.perf_counter() - start
        inputs = x.numpy()
        errors[name] = relative_error(library(inputs), expected)
        programs[name] = lambda library=library, inputs=inputs: library(inputs)
        weight_bytes[name] = library.nbytes
        layers[name] = [
            {"function": k.function, "layer": k.layer, "rule": k.rule, "us": round(k.us, 2)}
            for k in library.profile(inputs, repeat=5)
        ]
        del pruned
        gc.collect()
    wrong = {name: e for name, e in errors.items() if not e < TOLERANCE}
    if wrong:
        raise SystemExit(f"{network}: outputs differ from PyTorch's: {wrong}")
    times = interleaved(programs, options.rounds, options.seconds)
    dense = {n: t["median_us"] for n, t in times.items() if not n.startswith("ours")}
    best = min(dense, key=dense.__getitem__)
    ratios = {n: dense[best] / t["median_us"] for n, t in times.items() if n.startswith("ours")}
    return {
        "network": network,
        "batch": options.batch,
        "threads": options.threads,
        "best_dense": best,
        "times": times,
        "ratios": ratios,
        "errors": errors,
        "compile_seconds": compile_seconds,
        "weight_bytes": weight_bytes,
        "layers": layers,
        "environment": environment(options.threads),
        "summary": {
            "network": network,
            "threads": options.threads,
            "best dense": f"{best} {dense[best] / 1e3:.2f} ms",
            **{n: f"{r:.2f}x" for n, r in ratios.items()},
        },
    }


def _levels(network: str) -> dict[str, Callable[[Any], None]]:
    """Return how the network is pruned, by the name of the row; ``dense`` leaves it alone."""
    from functools import partial

    from benchmarks.networks import DEPRUNE, prune_balanced, prune_deprune, share_columns

    levels: dict[str, Callable[[Any], None]] = {"dense": lambda model: None}
    levels |= {name: partial(prune_balanced, keep=keep) for name, keep in LEVELS.items()}
    levels["87.5 % share=2"] = partial(share_columns, keep=2)
    if network in DEPRUNE:
        levels["DEPrune-BH"] = partial(prune_deprune, name=network)
    return levels


def baselines(
    model: Any, x: Any, threads: int, inductor: bool = True
) -> dict[str, Callable[[], Any]]:
    """Return the dense runtimes that are installed, each on its own copy of ``model``."""
    import torch

    def eager() -> Any:
        with torch.no_grad():
            return model(x).numpy()

    found = {"torch eager": eager}
    if inductor:
        compiled = torch.compile(model)

        def inductor() -> Any:
            with torch.no_grad():
                return compiled(x).numpy()

        found["torch.compile"] = inductor
    if importlib.util.find_spec("openvino"):
        found["openvino"] = _openvino(model, x, threads)
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnxscript"):
        found["onnxruntime"] = _onnxruntime(model, x, threads)
    return found


def _openvino(model: Any, x: Any, threads: int) -> Callable[[], Any]:
    import openvino

    core = openvino.Core()
    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    converted = openvino.convert_model(model, example_input=x, input=[tuple(x.shape)])
    request = core.compile_model(converted, "CPU", config).create_infer_request()
    data = x.numpy()
    return lambda: request.infer([data])[0]


def _onnxruntime(model: Any, x: Any, threads: int) -> Callable[[], Any]:
    import io

    import onnxruntime
    import torch

    buffer = io.BytesIO()
    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    program.save(buffer)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(buffer.getvalue(), settings, ["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: session.run(None, feed)[0]


def _arguments() -> argparse.Namespace:
    from benchmarks.networks import NETWORKS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each program in a round")
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-measure", action="store_true", help="choose by the cost model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
