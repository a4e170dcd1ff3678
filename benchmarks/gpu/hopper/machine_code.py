"""Machine code of the kernels, made where a CUDA compiler is and kept for where none is."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.gpu import prepare
from benchmarks.gpu.hopper import source
from benchmarks.gpu.hopper.design import LEFT_OUT, Design, Shape
from tvm_sparse.schedules.cuda.nvrtc import compile_source

ARCH = "sm_90a"
"""Hopper with its own instructions; its code runs on no other architecture."""


def cubin(design: Design, shape: Shape, left_out: str = LEFT_OUT[0]) -> bytes:
    """Return a kernel's machine code, compiled unless the same source was before.

    Raises
    ------
    SparseError
        If there is no CUDA compiler, or it refuses the source.
    """
    text = source.cuda(design, shape, left_out)
    path = prepare.place_of(text) / "kernel.cubin"
    if not path.exists():
        code = compile_source(text, ARCH)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".part")
        whole.write_bytes(code)
        whole.rename(path)
    return path.read_bytes()


def compile_all(kernels: Iterable[tuple[Design, Shape, str]]) -> None:
    """Compile ``kernels``, so that a machine that gets what is built need not."""
    for design, shape, left_out in kernels:
        cubin(design, shape, left_out)
