"""The demonstration: train, prune, export, detect, compile, compare, write, load afresh."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.base import json_text
from tvm_sparse.comparison.latency import race
from tvm_sparse.demo import digits, fresh
from tvm_sparse.demo.iterative import STEPS, StepResult, prune_iteratively
from tvm_sparse.demo.records import Level, Result
from tvm_sparse.demo.training import Images, Progress, accuracy, predict, train
from tvm_sparse.errors import SparseError

BATCH = 1
TOLERANCE = 1e-4
"""Largest difference to PyTorch that passes, relative to the largest output."""

BYTES_TOLERANCE = 0.03
"""The same in bytes: what lies between two of them may become either."""

CALIBRATION = 100
"""Training images that decide what bytes mean."""


def run(
    output: Path,
    *,
    epochs: int = 10,
    fine_tuning: int = 6,
    force: bool = False,
    progress: Progress | None = None,
) -> Result:
    """Do everything and write the artifact of the sparsest network to ``output``.

    Parameters
    ----------
    output
        Directory to write; with ``force`` it may exist.
    epochs, fine_tuning
        Passes over the training images, at first and after each pruning step.
    progress
        Told as ``progress(what, done, total)``.

    Raises
    ------
    SparseError
        An output differs from PyTorch's, or the fresh process predicts something else.
    """
    start = time.perf_counter()
    data = digits.load()
    model = train(digits.build_model(), data, epochs, progress=progress)
    accuracy_dense, bytes_dense = accuracy(model, data), model_bytes(model)
    steps = prune_iteratively(model, data, STEPS, epochs=fine_tuning, progress=progress)
    built = [build_level(step, data, progress) for step in steps]
    _, sparse, dense = built[-1]
    sparse.export(output, force=force)
    level_bytes, in_bytes = build_bytes(steps[-1], data, dense, progress)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dense.export(folder / "dense")
        in_bytes.export(folder / "int8")
        size = {
            "model": bytes_dense,
            "dense": directory_bytes(folder / "dense"),
            "sparse": directory_bytes(output),
            "int8": directory_bytes(folder / "int8"),
        }
        logits, found = load_afresh(output, data.test_images, folder)
    expected = predict(sparse, data.test_images, BATCH)
    require_same(logits, expected, "fresh process", "the build it came from", 0.0)
    return Result(
        accuracy_dense,
        [*(level for level, _, _ in built), level_bytes],
        str(output),
        size,
        found,
        environment(),
        time.perf_counter() - start,
    )


def build_level(
    step: StepResult, data: digits.Digits, progress: Progress | None = None
) -> tuple[Level, Any, Any]:
    """Export, detect and compile the network of one step, sparse and dense; compare and time.

    Returns
    -------
    level, sparse, dense
        The record and the two libraries.
    """
    name = f"{step.wanted:.0%}"
    report = _reporter(progress, f"compiling at {name}", 2)
    images, example = data.test_images, torch.from_numpy(data.test_images[:BATCH])
    program = torch.export.export(step.model, (example,))
    detected = ts.inspect(program)
    sparse = ts.compile(program, target="cpu")
    report(1)
    dense = ts.compile(program, target="cpu", config=ts.Config(sparse=False))
    report(2)
    reference = predict(step.model, images)
    outputs = predict(sparse, images, BATCH)
    error = require_same(outputs, reference, f"sparse build at {name}", "PyTorch")
    require_same(predict(dense, images, BATCH), reference, f"dense build at {name}", "PyTorch")
    level = Level(
        step.wanted,
        step.sparsity,
        _accuracies(step, outputs, data),
        detected.to_json(),
        list(sparse.decisions),
        error,
        len(outputs),
        _agreeing(outputs, reference),
        race(_programs(sparse, dense, step.model, example)),
    )
    return level, sparse, dense


def build_bytes(
    step: StepResult, data: digits.Digits, dense: Any, progress: Progress | None = None
) -> tuple[Level, Any]:
    """Quantize and compile the network of one step; compare, and time it beside ``dense`` floats.

    Returns
    -------
    level, library
        The record and the library.
    """
    report = _reporter(progress, "compiling in bytes", 2)
    images, example = data.test_images, torch.from_numpy(data.test_images[:BATCH])
    calibration = torch.from_numpy(data.train_images[:CALIBRATION])
    program = ts.quantize(step.model, calibration.split(BATCH))
    report(1)
    library = ts.compile(program, target="cpu")
    report(2)
    quantized, outputs = program.module(), predict(library, images, BATCH)
    reference = predict(lambda x: quantized(torch.from_numpy(x)).detach(), images, BATCH)
    error = require_same(outputs, reference, "build in bytes", "PyTorch", BYTES_TOLERANCE)
    level = Level(
        step.wanted,
        step.sparsity,
        _accuracies(step, outputs, data),
        ts.inspect(program).to_json(),
        list(library.decisions),
        error,
        len(outputs),
        _agreeing(outputs, reference),
        race(_programs(library, dense, step.model, example)),
        "int8",
    )
    return level, library


def _accuracies(step: StepResult, outputs: Images, data: digits.Digits) -> dict[str, float]:
    """Return the test accuracy on the way; ``outputs`` are those of the compiled network."""
    right = outputs.argmax(1) == data.test_labels
    return {
        "untuned": step.accuracy_untuned,
        "pruned": step.accuracy,
        "compiled": float(right.mean()),
    }


def _agreeing(outputs: Images, reference: Images) -> int:
    """Return how many images get the class that the reference gives them."""
    return int((outputs.argmax(1) == reference.argmax(1)).sum())


def require_same(
    found: Images, expected: Images, what: str, whose: str, tolerance: float = TOLERANCE
) -> float:
    """Return the largest absolute difference; raise if it exceeds ``tolerance`` of the largest."""
    error = float(np.abs(found - expected).max())
    allowed = tolerance * float(np.abs(expected).max())
    if not error <= allowed:
        raise SparseError(what, f"differs from {whose} by {error:.3g}", f"at most {allowed:.3g}")
    return error


def load_afresh(artifact: Path, images: Images, folder: Path) -> tuple[Images, dict[str, Any]]:
    """Predict ``images`` in a new process that has the artifact and the runtime only.

    Returns
    -------
    logits, found
        The outputs, and what :mod:`tvm_sparse.demo.fresh` printed.
    """
    np.save(folder / "images.npy", images)
    files = [str(artifact), str(folder / "images.npy"), str(folder / "logits.npy")]
    done = subprocess.run(
        [sys.executable, str(fresh.__file__), *files], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise SparseError("fresh process", f"failed ({last[0]})", "predictions")
    found = json_text.parsed(done.stdout)
    for intruder in ("torch", "compiler"):
        if found[intruder]:
            raise SparseError("fresh process", f"loaded {intruder}", "the runtime alone")
    return np.load(folder / "logits.npy"), found


def model_bytes(model: nn.Module) -> int:
    """Return the bytes of all parameters and buffers."""
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())


def directory_bytes(folder: Path) -> int:
    """Return the bytes of all files under ``folder``."""
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def environment() -> dict[str, Any]:
    """Return what a reader needs to judge the figures: CPU, threads, versions."""
    names = ("tvm-sparse", "apache-tvm", "apache-tvm-ffi", "torch", "numpy")
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "python": sys.version.split()[0],
        "versions": {name: version(name) for name in names},
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def _programs(
    sparse: Any, dense: Any, model: nn.Module, example: torch.Tensor
) -> dict[str, Callable[[], object]]:
    """Return the three programs as calls without arguments."""

    def eager() -> torch.Tensor:
        with torch.inference_mode():
            return model(example)

    return {"sparse": lambda: sparse(example), "dense": lambda: dense(example), "pytorch": eager}


def _reporter(progress: Progress | None, what: str, total: int) -> Callable[[int], None]:
    """Return ``progress`` for one task; it does nothing when there is none."""

    def report(done: int) -> None:
        if progress is not None:
            progress(what, done, total)

    report(0)
    return report
