"""CUDA source to machine code, by NVRTC from PyPI or by a toolkit's nvcc; needs no driver."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from tvm_sparse.errors import SparseError, UnsupportedError

FLAGS = ("-w", "-default-device", "--device-int128", "--ptxas-options=-O3")
"""No fast math: exp, division and denormals stay as accurate as on the CPU."""

PREAMBLE = "#define INFINITY __int_as_float(0x7f800000)\n"
"""What generated kernels expect of the host's ``math.h``, which NVRTC does not read."""

_TRAITS = re.compile(r"#include <cuda/std/type_traits>\s*namespace std \{[^}]*\}")
"""What TVM writes above all kernels for a few of them: NVRTC reads that header for two seconds."""

_STANDARD = re.compile(r"(?<!cuda::)\bstd::")

_NO_NUMBER = re.compile(r"\b(inf|nan)f(?=/\*)")
"""What TVM writes for constants of bfloat16 that are no numbers, a comment behind each."""

_BITS = {"inf": "0x7f800000", "nan": "0x7fc00000"}


def compiler_name() -> str | None:
    """Return ``"nvrtc"``, ``"nvcc"``, or None where neither can be used."""
    if _nvrtc() is not None and _includes():
        return "nvrtc"
    return "nvcc" if shutil.which("nvcc") else None


class Compiled(NamedTuple):
    """Code, and what the compiler and the assembler say of it; empty for most kernels."""

    code: bytes
    log: str


def compile_source(source: str, arch: str) -> bytes:
    """Return the code of :func:`compile_telling`."""
    return compile_telling(source, arch).code


def compile_telling(source: str, arch: str) -> Compiled:
    """Return the cubin of CUDA ``source`` for ``arch`` (``"sm_90"``); ``compute_*`` gives PTX.

    Raises
    ------
    UnsupportedError
        If there is no CUDA compiler.
    SparseError
        If the source does not compile; the message holds the compiler's log.
    """
    compiler = compiler_name()
    if compiler is None:
        raise UnsupportedError(
            "target cuda",
            "no CUDA compiler found",
            "NVRTC (cuda-bindings with its wheels) or nvcc",
            "pip install 'tvm-sparse[cuda]'",
        )
    source = _NO_NUMBER.sub(lambda found: f"__int_as_float({_BITS[found[1]]})", source)
    return _by_nvrtc(source, arch) if compiler == "nvrtc" else _by_nvcc(source, arch)


@functools.cache
def _nvrtc() -> Any:
    """Return the module ``cuda.bindings.nvrtc`` with its library loaded, or None."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return None
    return nvrtc


@functools.cache
def _includes() -> tuple[str, ...]:
    """Return the directories of the CUDA headers, empty where they are not complete."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return ()
    found = [find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    return tuple(path for path in found if path) if all(found) else ()


def _by_nvrtc(source: str, arch: str) -> Compiled:
    nvrtc = _nvrtc()
    options = [f"--gpu-architecture={arch}", *FLAGS, *(f"-I{path}" for path in _includes())]
    # The driver's header declares host functions; the types that kernels need are in the others.
    text = PREAMBLE + _without_traits(source.replace("#include <cuda.h>", ""))
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    _check(nvrtc, status, arch)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        said = bytearray(size)
        nvrtc.nvrtcGetProgramLog(program, said)
        log = said.decode().strip("\0 \n")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise SparseError("NVRTC", f"cannot compile for {arch}:\n{log}")
        virtual = arch.startswith("compute_")
        get_size = nvrtc.nvrtcGetPTXSize if virtual else nvrtc.nvrtcGetCUBINSize
        get = nvrtc.nvrtcGetPTX if virtual else nvrtc.nvrtcGetCUBIN
        status, size = get_size(program)
        _check(nvrtc, status, arch)
        code = bytearray(size)
        (status,) = get(program, code)
        _check(nvrtc, status, arch)
        return Compiled(bytes(code), log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _without_traits(source: str) -> str:
    """Return ``source`` without the header of type traits if it uses none."""
    plain = _TRAITS.sub("", source)
    return source if _STANDARD.search(plain) else plain


def _check(nvrtc: Any, status: Any, arch: str) -> None:
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise SparseError("NVRTC", f"failed for {arch} ({status})")


def _by_nvcc(source: str, arch: str) -> Compiled:
    kind = "ptx" if arch.startswith("compute_") else "cubin"
    with tempfile.TemporaryDirectory() as place:
        code, result = Path(place, "kernels.cu"), Path(place, f"kernels.{kind}")
        code.write_text(source, encoding="utf-8")
        command = ["nvcc", f"--{kind}", "-O3", f"-arch={arch}", "-o", str(result), str(code)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = (done.stdout + done.stderr).strip()
        if done.returncode:
            raise SparseError("nvcc", f"cannot compile for {arch}:\n{log}")
        return Compiled(result.read_bytes(), log)
