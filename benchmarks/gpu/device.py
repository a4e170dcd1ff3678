"""The GPU as the benchmark sees it: NVIDIA's first one, or the stand-in of ``stand_in.py``."""

from __future__ import annotations

import functools
import os

import torch

from tvm_sparse.comparison.gpu_device import (
    FLUSHES,
    Cuda,
    Device,
    Program,
    poisoned,
    require_written,
)

__all__ = ["FLUSHES", "Cuda", "Device", "Program", "poisoned", "require_written"]

STAND_IN = "GPU_BENCHMARK_STAND_IN"
"""Environment variable that chooses the stand-in; ``stand_in.enter`` sets it."""


@functools.cache
def current() -> Device:
    """Return the device of this process."""
    if STAND_IN in os.environ:
        from benchmarks.gpu.stand_in import StandIn

        return StandIn()
    return Cuda()


def missing() -> str:
    """Return why there is no device; empty where there is one."""
    if STAND_IN in os.environ or torch.cuda.is_available():
        return ""
    return f"torch {torch.__version__} finds no NVIDIA GPU on this machine"
