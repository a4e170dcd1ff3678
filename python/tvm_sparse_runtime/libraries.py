"""NVIDIA's cuBLASLt, which computes dense layers of GPU programs where it is there."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import engine

CUBLASLT = "cublaslt"
"""What decisions call a layer that the library computes."""

VARIABLE = "TVM_SPARSE_CUBLASLT"
"""Names the library's file, or is ``off``."""

WHEELS = ("cu13/lib", "cublas/lib")
"""Folders of NVIDIA's wheels, below ``nvidia``, that may hold the library."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """The library that this process uses, or why it uses none.

    ``version`` is as the library tells it: ten thousand times the major one, and so on. With a
    ``problem`` our own kernels run.
    """

    path: str
    version: str
    problem: str

    def __str__(self) -> str:
        if self.problem:
            return f"cuBLASLt: {self.problem}; our own kernels run"
        return f"cuBLASLt: {self.version} ({self.path})"


@functools.cache
def cublaslt() -> Found:
    """Look for the library, once for this process, and start it.

    The environment variable ``TVM_SPARSE_CUBLASLT`` names its file, or is ``off``. Without it, a
    copy that the process has loaded is taken, then that of the wheel ``nvidia-cublas``, then what
    the loader finds.
    """
    path, version, problem = engine.function("tvm_sparse.blas.library")(_folders())
    return Found(str(path), str(version), str(problem))


def used(decisions: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line for each library that layers of an artifact ask, and log it.

    Parameters
    ----------
    decisions
        Those of its manifest.
    """
    layers = sum(decision.get("chosen") == CUBLASLT for decision in decisions)
    if not layers:
        return ()
    found = cublaslt()
    line = f"{found} ({layers} of {len(decisions)} layers ask it)"
    expected = not found.problem or os.environ.get(VARIABLE) == "off"
    _log.log(logging.INFO if expected else logging.WARNING, "%s", line)
    return (line,)


def _folders() -> list[str]:
    """Return the folders of NVIDIA's wheels that are installed."""
    spec = importlib.util.find_spec("nvidia")
    places = spec.submodule_search_locations if spec else None
    return [str(Path(place, wheel)) for place in places or () for wheel in WHEELS]
