"""Machine code for one or several GPU architectures, in the form that TVM's CUDA runtime loads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import tvm
import tvm_ffi

from tvm_sparse.base.targets import capability, portable
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.schedules.cuda.nvrtc import compile_source

CALLBACK = "tvm_callback_cuda_compile"
"""What TVM calls to compile CUDA source where there is a driver, and never where there is none."""


def machine_code(source: str, archs: Sequence[str]) -> tuple[str, bytes]:
    """Return the format and the code: a cubin for one architecture, a fat binary for several.

    A fat binary also holds PTX of the newest portable architecture, for GPUs that come later.
    """
    if len(archs) == 1:
        return "cubin", compile_source(source, archs[0])
    return "fatbin", _fat_binary(source, archs)


@contextlib.contextmanager
def our_compiler(archs: Sequence[str]) -> Iterator[None]:
    """Let TVM compile for ``archs`` with our flags, whether or not there is a driver."""
    stock = tvm_ffi.get_global_func(CALLBACK)
    tvm.register_global_func(CALLBACK, lambda code: machine_code(code, archs)[1], override=True)
    try:
        yield
    finally:
        tvm.register_global_func(CALLBACK, stock, override=True)


def _fat_binary(source: str, archs: Sequence[str]) -> bytes:
    try:
        from cuda.bindings import nvfatbin

        nvfatbin.version()
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(
            "target cuda",
            f"several architectures need nvFatbin, which cannot be loaded ({error})",
            "nvidia-nvfatbin and cuda-bindings",
            "pip install 'tvm-sparse[cuda]', or name one architecture",
        ) from error
    options = ["-64", "-compress=true"]
    handle = nvfatbin.create(options, len(options))
    for arch in archs:
        code = compile_source(source, arch)
        nvfatbin.add_cubin(handle, code, len(code), arch.removeprefix("sm_"), arch)
    later = max(filter(portable, archs), key=capability, default=None)
    if later is not None:
        newest = str(capability(later))
        text = compile_source(source, f"compute_{newest}")
        nvfatbin.add_ptx(handle, text, len(text), newest, f"compute_{newest}", "")
    binary = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, binary)
    nvfatbin.destroy(handle)
    return bytes(binary)
