"""Files that the whole-model benchmark times: our artifacts, and the dense runtimes' own models."""

from __future__ import annotations

import functools
import gc
import importlib.util
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import tvm_sparse as ts
from benchmarks.networks import DEPRUNE, build, prune_balanced, prune_deprune, share_columns
from tvm_sparse.kernel import Kernel
from tvm_sparse.memory import give_back
from tvm_sparse.profile import timed

INPUT, EXPECTED, FACTS, ARTIFACT = "input.npy", "expected.npy", "facts.json", "model.tvms"
LEVELS = {"75 %": 4, "87.5 %": 2, "93.75 %": 1}
NINETY = partial(prune_balanced, keep=3, bank=32)
"""90.6 % zeros."""

SHARED = ("resnet50", "bert_base", "mobilenet_v2")
"""Networks that are measured with shared columns too."""

MEMORY = """
import re, sys, numpy, tvm_sparse_runtime as rt
read = lambda name: int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
x = numpy.load(sys.argv[2]); before = read("VmRSS")
rt.load(sys.argv[1], verify=False)(x)
print((read("VmHWM") - before) * 1024)
"""
"""What a fresh process without compiler and torch needs on top of itself to run a model once."""


def levels(network: str, batch: int) -> dict[str, Callable[[Any], None]]:
    """Return how the network is pruned, by the name of the row; ``dense`` leaves it alone."""
    found: dict[str, Callable[[Any], None]] = {"dense": lambda model: None}
    if batch > 1:
        return found | {"90.6 %": NINETY}
    if network == "resnet50":
        found["90.6 %"] = NINETY  # for its memory
    found |= {name: partial(prune_balanced, keep=keep) for name, keep in LEVELS.items()}
    if network in SHARED:
        found["87.5 % share=2"] = partial(share_columns, keep=2)
    if network in DEPRUNE:
        found["DEPrune-BH"] = partial(prune_deprune, name=network)
    return found


def prepare(network: str, batch: int, place: Path, *, measure: bool, inductor: bool) -> None:
    """Write everything that is not there yet to ``place``."""
    place.mkdir(parents=True, exist_ok=True)
    model, x = build(network, batch)
    np.save(place / INPUT, x.numpy())
    with torch.no_grad():
        np.save(place / EXPECTED, model(x).numpy())
    for name, (write, file, module) in BASELINES.items():
        wanted = importlib.util.find_spec(module) and (inductor or name != "torch.compile")
        if wanted and not (place / file).exists():
            write(model, x, place / file)
    del model
    for level, prune in levels(network, batch).items():
        folder = place / level.replace(" ", "")
        if not (folder / FACTS).exists():
            pruned, x = build(network, batch)
            prune(pruned)
            _compile(level, pruned, x, folder, measure)
            del pruned
            gc.collect()


def _compile(level: str, model: Any, x: torch.Tensor, folder: Path, measure: bool) -> None:
    folder.mkdir(exist_ok=True)
    with torch.no_grad():
        np.save(folder / EXPECTED, model(x).numpy())
    code = _code_bytes()
    start = time.process_time()
    library, peak = _compiled(model, x, measure)
    seconds = time.process_time() - start
    library.export(folder / ARTIFACT, force=True)
    command = [sys.executable, "-c", MEMORY, str(folder / ARTIFACT), str(folder.parent / INPUT)]
    needed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    facts = {
        "level": level,
        "compile_cpu_seconds": seconds,
        "compile_peak_bytes": code + peak,
        "compile_code_bytes": code,
        "inference_peak_bytes": int(needed),
        "weight_bytes": library.nbytes,
        "chosen": dict(Counter(d.chosen for d in library.decisions)),
        "kernels": [[k.function, k.layer, k.rule] for k in library.kernels],
    }
    (folder / FACTS).write_text(json.dumps(facts))


def _compiled(model: Any, x: torch.Tensor, measure: bool) -> tuple[ts.Library, int]:
    """Return the compiled model, and what the compilation needed on top of this process."""
    give_back()  # else the level before leaves free blocks, which would count as there already
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    before = _status("VmRSS")
    library = ts.compile(model, (x,), config=ts.Config(measure=measure))
    return library, _status("VmHWM") - before


@functools.cache
def _code_bytes() -> int:
    """Return what the first compilation of this process needs for next to no weights: code."""
    return _compiled(torch.nn.Linear(16, 16).eval(), torch.ones(1, 16), False)[1]


def _status(name: str) -> int:
    """Return a figure of this process in bytes, as Linux calls it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def facts_of(place: Path) -> dict[str, dict[str, Any]]:
    """Return what was noted about each level of ours, by folder."""
    found = {str(p.parent): json.loads(p.read_text()) for p in place.glob(f"*/{FACTS}")}
    return dict(sorted(found.items(), key=lambda item: -item[1]["weight_bytes"]))


def kernel_times(
    folder: Path, facts: dict[str, Any], x: np.ndarray, threads: int, repeat: int
) -> tuple[list[dict[str, Any]], float]:
    """Return the kernels of an artifact with their times, in call order, and that of all in us."""
    import tvm

    from tvm_sparse_runtime import load

    opened = load(folder / ARTIFACT, verify=False, threads=threads)
    weights = dict(enumerate(np.from_dlpack(w) for w in opened._weights))
    file = folder / ARTIFACT / opened.manifest.library
    library = SimpleNamespace(
        executable=tvm.runtime.load_module(str(file)),
        weights=weights,
        kernels=[Kernel(*k) for k in facts["kernels"]],
    )
    kernels, total = timed(library, (x,), repeat)
    rows = [
        {"function": k.function, "layer": k.layer, "rule": k.rule, "us": round(k.us, 2)}
        for k in kernels
    ]
    return rows, total


def opened(place: Path, threads: int) -> dict[str, tuple[Callable[[], Any], Path]]:
    """Open every program in ``place``; each comes with the folder of its expected output."""
    from tvm_sparse_runtime import load

    x = np.load(place / INPUT)
    found: dict[str, tuple[Callable[[], Any], Path]] = {}
    for name, open_file in OPENERS.items():
        file = place / BASELINES[name][1]
        if file.exists():
            found[name] = open_file(file, x, threads), place
    for folder, facts in facts_of(place).items():
        library = load(Path(folder, ARTIFACT), verify=False, threads=threads)
        found[f"ours {facts['level']}"] = partial(library, x), Path(folder)
    return found


def _write_inductor(model: Any, x: torch.Tensor, file: Path) -> None:
    """Weights frozen, so packed ahead (else an LSTM takes 20 times as long); any thread count."""
    settings = {"freezing": True, "cpp.dynamic_threads": True}
    with torch.no_grad():
        program = torch.export.export(model, (x,))
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(file), inductor_configs=settings
        )


def _write_openvino(model: Any, x: torch.Tensor, file: Path) -> None:
    import openvino

    try:
        converted = openvino.convert_model(model, example_input=x, input=[tuple(x.shape)])
    except RuntimeError:  # torchvision's transformers differ from one tracing to the next
        converted = openvino.convert_model(torch.export.export(model, (x,)))
    openvino.save_model(converted, file, compress_to_fp16=False)


def _write_onnx(model: Any, x: torch.Tensor, file: Path) -> None:
    torch.onnx.export(model, (x,), dynamo=True, verbose=False).save(file)


def _open_inductor(file: Path, x: np.ndarray, threads: int) -> Callable[[], Any]:
    torch.set_num_threads(threads)
    program, tensor = torch._inductor.aoti_load_package(str(file)), torch.from_numpy(x)

    def run() -> Any:
        with torch.no_grad():
            return program(tensor).numpy()

    return run


def _open_openvino(file: Path, x: np.ndarray, threads: int) -> Callable[[], Any]:
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = openvino.Core().compile_model(file, "CPU", config).create_infer_request()
    return lambda: request.infer([x])[0]


def _open_onnx(file: Path, x: np.ndarray, threads: int) -> Callable[[], Any]:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(file), settings, ["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)[0]


BASELINES: dict[str, tuple[Callable[[Any, torch.Tensor, Path], None], str, str]] = {
    "openvino": (_write_openvino, "openvino.xml", "openvino"),
    "onnxruntime": (_write_onnx, "model.onnx", "onnxscript"),
    "torch.compile": (_write_inductor, "inductor.pt2", "torch"),
}
"""How each dense runtime's model is written, to which file, and the package that it needs."""

OPENERS = {
    "openvino": _open_openvino,
    "onnxruntime": _open_onnx,
    "torch.compile": _open_inductor,
}
