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
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import tvm_sparse as ts
from benchmarks.cases.networks import (
    DEPRUNE,
    build,
    prune_balanced,
    prune_blocks,
    prune_deprune,
    share_columns,
)
from benchmarks.peers.model_runtimes import BASELINES, INT8, OPENERS, QUANTIZED, write_quantized
from tvm_sparse.base.freed import give_back
from tvm_sparse.base.targets import parse_target
from tvm_sparse.comparison.profile import timed
from tvm_sparse.comparison.reference import fed, onnxruntime_session
from tvm_sparse.schedules.kernel import Kernel

INPUTS, EXPECTED, FACTS, ARTIFACT = "inputs.npy", "expected.npy", "facts.json", "model.tvms"
QUANTIZED_EXPECTED = "expected_int8.npy"
VERIFIED = {"float32": 1, "int8": 8}
"""Inputs that outputs are verified on, by precision; the first one is timed.

One input says little about deep networks in bytes: a rounding that falls the other way is passed
on, and the error of the same graph goes up or down by a third.
"""

LEVELS = {"75 %": 4, "87.5 %": 2, "93.75 %": 1}
BLOCKS, BLOCKED = ("75 %", "87.5 %"), ("resnet50", "bert_base", "minilm", "vit_b_16")
"""Levels that are measured in whole blocks, too, and the networks: their layers have many blocks.
Engines for tiles leave these out.
"""

NINETY = partial(prune_balanced, keep=3, bank=32)
"""90.6 % zeros."""

SHARED = ("resnet50", "bert_base", "mobilenet_v2")
"""Networks that are measured with shared columns too."""

MEMORY = """
import re, sys, numpy, tvm_sparse_runtime as rt
read = lambda name: int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
x = numpy.load(sys.argv[2])[0]; before = read("VmRSS")
rt.load(sys.argv[1], verify=False)(x)
print((read("VmHWM") - before) * 1024)
"""
"""What a fresh process without compiler and torch needs on top of itself to run a model once."""


def levels(
    network: str, batch: int, precision: str = "float32"
) -> dict[str, Callable[[Any], None]]:
    """Return how the network is pruned, by the name of the row; ``dense`` leaves it alone."""
    found: dict[str, Callable[[Any], None]] = {"dense": lambda model: None}
    if precision == "int8":
        found |= {name: partial(prune_balanced, keep=keep) for name, keep in LEVELS.items()}
        return found | {
            f"{name} blocks": partial(prune_blocks, sparsity=1 - keep / 16)
            for name, keep in LEVELS.items()
            if name in BLOCKS and network in BLOCKED
        }
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


@dataclass(frozen=True)
class Options:
    """How programs are made.

    ``measure`` candidates of our layers, or believe the cost model; write torch.compile's program
    (``inductor``), which takes minutes. ``only`` names levels; all without any.
    """

    precision: str = "float32"
    measure: bool = True
    inductor: bool = True
    only: tuple[str, ...] = ()


def prepare(network: str, batch: int, place: Path, options: Options) -> None:
    """Write everything that is not there yet to ``place``."""
    place.mkdir(parents=True, exist_ok=True)
    model, x = build(network, batch)
    np.save(place / INPUTS, shuffled(x, VERIFIED[options.precision]).numpy())
    np.save(place / EXPECTED, _expected(model, place))
    for name, (write, file, module) in BASELINES.items():
        wanted = importlib.util.find_spec(module) and _wanted(name, options)
        if wanted and not (place / file).exists():
            write(model, x, place / file)
    del model
    for level, prune in levels(network, batch, options.precision).items():
        if options.only and level not in options.only:
            continue
        folder = place / level.replace(" ", "")
        if not (folder / FACTS).exists():
            pruned, x = build(network, batch)
            prune(pruned)
            folder.mkdir(exist_ok=True)
            _compile(level, _source(pruned, x, folder, options), folder, options.measure)
            del pruned
            gc.collect()


def shuffled(x: torch.Tensor, count: int) -> torch.Tensor:
    """Return ``(count, *x.shape)``: ``x``, and its values in other orders, so of the same range."""
    generator = torch.Generator().manual_seed(2)
    others = [torch.randperm(x.numel(), generator=generator) for _ in range(count - 1)]
    return torch.stack([x, *(x.flatten()[order].view(x.shape) for order in others)])


def _expected(model: Any, place: Path) -> np.ndarray:
    """Return what PyTorch makes of each input in ``place``."""
    with torch.no_grad():
        return np.stack([model(torch.from_numpy(x)).numpy() for x in np.load(place / INPUTS)])


def _wanted(name: str, options: Options) -> bool:
    """Whether a dense runtime is compared with: beside bytes, not one that takes minutes."""
    if name == "torch.compile":
        return options.inductor and options.precision == "float32"
    return options.precision == "int8" or not name.endswith(INT8)


def _source(model: Any, x: torch.Tensor, folder: Path, options: Options) -> tuple[Any, ...]:
    """Return what :func:`tvm_sparse.compile` gets, and write what it should compute.

    Of bytes that is what onnxruntime makes of the same graph without any optimisation. Both are
    compared with the floats of PyTorch.
    """
    np.save(folder / EXPECTED, _expected(model, folder.parent))
    if options.precision == "float32":
        return model, (x,)
    file = folder / QUANTIZED
    if not file.exists():
        write_quantized(model, x, file)
    inputs = np.load(folder.parent / INPUTS)
    session = onnxruntime_session(str(file), 1, optimised=False)
    programs = [fed(session, [x]) for x in inputs]
    np.save(folder / QUANTIZED_EXPECTED, np.stack([program()[0] for program in programs]))
    return (file,)


def _compile(level: str, source: tuple[Any, ...], folder: Path, measure: bool) -> None:
    code = _code_bytes()
    start = time.process_time()
    library, peak = _compiled(source, measure)
    seconds = time.process_time() - start
    library.export(folder / ARTIFACT, force=True)
    command = [sys.executable, "-c", MEMORY, str(folder / ARTIFACT), str(folder.parent / INPUTS)]
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


def _compiled(source: tuple[Any, ...], measure: bool) -> tuple[ts.Library, int]:
    """Return the compiled model, and what the compilation needed on top of this process."""
    give_back()  # else the level before leaves free blocks, which would count as there already
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    before = _status("VmRSS")
    library = ts.compile(*source, config=ts.Config(measure=measure))
    return library, _status("VmHWM") - before


@functools.cache
def _code_bytes() -> int:
    """Return what the first compilation of this process needs for next to no weights: code."""
    return _compiled((torch.nn.Linear(16, 16).eval(), (torch.ones(1, 16),)), False)[1]


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
        target=parse_target("cpu").target,
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


def peers(place: Path) -> dict[str, Path]:
    """Return the file of each dense runtime in ``place``."""
    files = {name: place / BASELINES[name][1] for name in OPENERS}
    return {name: file for name, file in files.items() if file.exists()}


def opened(
    place: Path, x: np.ndarray, threads: int, without: Collection[str] = ()
) -> dict[str, tuple[Callable[[], Any], Path]]:
    """Open every program in ``place`` on ``x``; each has the folder of its expected outputs.

    The dense runtimes ``without`` are left out.
    """
    from tvm_sparse_runtime import load

    found: dict[str, tuple[Callable[[], Any], Path]] = {}
    for name, file in peers(place).items():
        if name not in without:
            found[name] = OPENERS[name](file, x, threads), place
    for folder, facts in facts_of(place).items():
        library = load(Path(folder, ARTIFACT), verify=False, threads=threads)
        found[f"ours {facts['level']}"] = partial(library, x), Path(folder)
    return found
