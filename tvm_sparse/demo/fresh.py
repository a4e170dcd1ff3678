"""Run by path in a process of its own: load an artifact with the runtime only, predict, report.

Usage: ``python fresh.py ARTIFACT IMAGES.npy LOGITS.npy``. Images go through one batch at a time;
prints one JSON object that says what the process had loaded in the end.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import tvm_sparse_runtime

COMPILER = "libtvm_compiler"
"""Name of TVM's compiler library, as far as all platforms share it."""


def predict(artifact: str, images: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the logits of ``images``, and the seconds it took to load ``artifact``."""
    start = time.perf_counter()
    library = tvm_sparse_runtime.load(artifact)
    seconds = time.perf_counter() - start
    batch = int(library.inputs[0].shape[0])
    parts = [library(images[i : i + batch]) for i in range(0, len(images), batch)]
    return np.concatenate(parts), seconds


def compiler_is_mapped() -> bool:
    """Whether this process has TVM's compiler library in memory (told by Linux only)."""
    maps = Path("/proc/self/maps")
    return maps.exists() and COMPILER in maps.read_text(encoding="utf-8", errors="replace")


def main(artifact: str, images: str, logits: str) -> None:
    """Predict and report."""
    outputs, seconds = predict(artifact, np.load(images))
    np.save(logits, outputs)
    found = {
        "torch": "torch" in sys.modules,
        "compiler": "tvm" in sys.modules or compiler_is_mapped(),
        "load_seconds": seconds,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
