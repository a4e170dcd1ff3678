"""CUDA source to PTX by NVRTC from PyPI; needs neither a driver nor a toolkit."""

from __future__ import annotations

from typing import Any

from tvm_sparse_emulator.errors import EmulatorError
from tvm_sparse_emulator.headers import HEADERS


def compile_ptx(source: str, arch: str = "compute_90a", *, flags: tuple[str, ...] = ()) -> str:
    """Return the PTX of CUDA source.

    Parameters
    ----------
    source
        Kernels are found by their names in C: write ``extern "C" __global__``.
    arch
        The virtual architecture, such as ``"compute_80"``.
    flags
        More of NVRTC's options, such as ``"-DTILE=64"``; CUDA's own headers
        are found, and those of C that kernels use.

    Raises
    ------
    EmulatorError
        NVRTC is not installed, or the source does not compile; the message holds NVRTC's log.
    """
    try:
        from cuda.bindings import nvrtc
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError as error:
        todo = "pip install 'tvm-sparse-emulator[nvrtc]'"
        raise EmulatorError("NVRTC", f"not installed ({error}); {todo}") from error
    found = [find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    words = [f"--gpu-architecture={arch}", "-default-device", *flags]
    words += [f"-I{path}" for path in found if path]
    names, texts = ([one.encode() for one in side] for side in zip(*HEADERS.items(), strict=True))
    made = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(names), texts, names)
    program = _checked(nvrtc, made)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(words), [w.encode() for w in words])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = bytearray(_checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program)))
            nvrtc.nvrtcGetProgramLog(program, log)
            text = log.rstrip(b"\0").decode().strip()
            raise EmulatorError("NVRTC", f"cannot compile for {arch}:\n{text}")
        ptx = bytearray(_checked(nvrtc, nvrtc.nvrtcGetPTXSize(program)))
        _checked(nvrtc, nvrtc.nvrtcGetPTX(program, ptx))
        return ptx.rstrip(b"\0").decode()
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(nvrtc: Any, result: tuple) -> Any:
    """Return what a call gave besides its status."""
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise EmulatorError("NVRTC", f"failed ({status})")
    return values[0] if values else None
