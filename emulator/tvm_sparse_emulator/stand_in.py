"""A CUDA driver, runtime and NVIDIA's libraries for other processes: PTX is executed on the CPU."""

from __future__ import annotations

import os
from pathlib import Path

from tvm_sparse_emulator.executor import directory

CUBLASLT = "libcublasLt.so.13"
"""The stand-in for NVIDIA's library of products."""

CUDNN = "libcudnn.so.9"
"""The stand-in for NVIDIA's library of convolutions."""

CUSPARSELT = "libcusparseLt.so.0"
"""The stand-in for NVIDIA's library of 2:4 products."""


def environment(*, capability: int | None = None, log: str | Path | None = None) -> dict[str, str]:
    """Return the variables of a process that finds the stand-ins instead of CUDA's libraries.

    Parameters
    ----------
    capability
        Of the GPU that the driver pretends to have: 80 is 8.0. By default it is 9.0.
    log
        A file to which the driver writes what it is asked to do. Then machine code loads too and
        computes nothing.
    """
    found = {"LD_LIBRARY_PATH": str(directory())}
    if capability is not None:
        found["FAKE_CUDA_CAPABILITY"] = str(capability)
    if log is not None:
        found["FAKE_CUDA_LOG"] = os.fspath(log)
    return found
