"""The kernels on a CPU, by the same source: every GPU thread is a thread (``kernels/on_cpu.h``)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.gpu.hopper import source
from benchmarks.gpu.hopper.arguments import Call
from benchmarks.gpu.hopper.design import Design, Shape

COMPILER = "g++"
FLAGS = ("-std=c++20", "-O1", "-shared", "-fPIC", "-pthread")


class _Map(ctypes.Structure):
    """``TensorMap`` of ``kernels/on_cpu.h``."""

    _fields_ = [
        ("values", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in ("rows", "columns", "box_rows")),
    ]


class Kernels:
    """Kernels compiled into one library in the folder ``place``."""

    def __init__(self, wanted: Sequence[tuple[Design, Shape]], place: Path) -> None:
        self.wanted = list(wanted)
        code, library = place / "kernels.cc", place / "kernels.so"
        code.write_text(source.cpu(self.wanted), encoding="utf-8")
        subprocess.run([COMPILER, *FLAGS, str(code), "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))

    def run(self, which: int, call: Call, x: torch.Tensor) -> torch.Tensor:
        """Return ``[rows, M]`` of a call with activations ``x``; thread blocks run in turn.

        A thread that waits for ever, or a copy that is not aligned, ends the process.
        """
        boxes = _Map(x.data_ptr(), *x.shape, self.wanted[which][1].rows)
        getattr(self._library, f"run{which}")(
            ctypes.byref(call.arguments), ctypes.byref(boxes), call.units
        )
        return call.y


def missing() -> str:
    """Return why kernels cannot be run; empty where they can."""
    return "" if shutil.which(COMPILER) else f"{COMPILER} is not installed"
