"""Artifacts of every format version that releases read, and how they were made.

``python -m tests.stored`` writes those that are missing. An artifact stays as it is for as long as
its format version is read; another version of TVM needs new ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvm_sparse_runtime.structure import Structure

HERE = Path(__file__).resolve().parent
TARGETS = {
    2: ("x86-64-v2",),
    3: ("x86-64-v2", "x86-64-v3"),
    4: ("x86-64-v2", "x86-64-v3"),
    5: ("x86-64-v2",),
    6: ("x86-64-v2", "x86-64-v3"),
    7: ("x86-64-v2",),
}
UNALIGNED = {5: (0,)}
RANGES = {7: ("batch is 1 to 16: other sizes are another model (model.py, line 3)",)}
STRUCTURES = {4: Structure((("x", {"list": [0]}), ("scale", {"value": 1.0})), {"dict": {"y": 0}})}
X = np.arange(128, dtype="float32").reshape(2, 64) % 7


def path(version: int) -> Path:
    """Return the artifact of a format version."""
    return HERE / f"format{version}"
