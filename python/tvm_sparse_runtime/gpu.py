"""NVIDIA GPUs: TVM's CUDA runtime, whether the GPU fits an artifact, and copies to and from it."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import engine
from .errors import RuntimeArtifactError, SparseRuntimeError
from .spec import ALIGNMENT

_EXISTS, _COMPUTE_VERSION = 0, 4
"""What TVM calls these properties of a device."""


def require(archs: Sequence[str], where: str) -> None:
    """Load TVM's CUDA runtime and refuse a GPU that cannot run code for ``archs``.

    Machine code for ``sm_XY`` runs on GPUs of the same major version X and at least Y.

    Raises
    ------
    SparseRuntimeError
        If there is no CUDA, no driver or no GPU.
    RuntimeArtifactError
        If the GPU is of another architecture; ``where`` names the artifact.
    """
    _load()
    here = _compute_capability()
    if not any(_runs(arch, here) for arch in archs):
        raise RuntimeArtifactError(
            where,
            f"made for {', '.join(archs)}, this GPU is sm_{here[0]}{here[1]}",
            "the same major version, and not a newer minor one",
            f"compile for cuda:sm_{here[0]}{here[1]}",
        )


def home(value: Any) -> str:
    """Return the device that a tensor of any framework lies on."""
    kind, _ = value.__dlpack_device__()
    return "cpu" if kind == engine.DEVICE_TYPES["cpu"] else "cuda"


def moved(tensor: Any, device: str) -> Any:
    """Return ``tensor`` if it lies on ``device``, else a copy there."""
    return tensor if home(tensor) == device else copy(tensor, device)


def aligned(tensor: Any) -> Any:
    """Return a contiguous tensor as kernels need it: ``tensor`` itself, or a copy beside it."""
    if home(tensor) == "cpu":
        return engine.aligned(tensor)
    return copy(tensor, "cuda") if tensor.data_ptr() % ALIGNMENT else tensor


def copy(tensor: Any, device: str) -> Any:
    """Return a copy of a contiguous tensor on ``device``, complete when it lies on the host."""
    result = engine.empty(tensor.shape, str(tensor.dtype), device)
    engine.function("runtime.TVMTensorCopyFromTo")(tensor, result)
    if device == "cpu":
        engine.function("runtime.Device_StreamSync")(engine.ffi().device("cuda", 0), 0)
    return result


@functools.cache
def _load() -> None:
    """Load TVM's CUDA runtime, which registers itself; it must never be closed."""
    engine.ffi()
    try:
        _open_cudart()
        library = engine.runtime_library().with_name("libtvm_runtime_cuda.so")
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise SparseRuntimeError(
            "CUDA",
            f"cannot be loaded ({error})",
            "an NVIDIA driver and the CUDA 13 runtime",
            "install the driver, and pip install nvidia-cuda-runtime",
        ) from error


def _open_cudart() -> None:
    """Load the CUDA runtime library from the loader's path or from NVIDIA's wheel."""
    name = "libcudart.so.13"
    try:
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        spec = importlib.util.find_spec("nvidia")
        places = spec.submodule_search_locations if spec else None
        found = [Path(place, "cu13", "lib", name) for place in places or ()]
        wheel = next((path for path in found if path.is_file()), None)
        if wheel is None:
            raise
        ctypes.CDLL(str(wheel), mode=ctypes.RTLD_GLOBAL)


def _compute_capability() -> tuple[int, int]:
    attribute, gpu = engine.function("runtime.GetDeviceAttr"), engine.DEVICE_TYPES["cuda"]
    if not attribute(gpu, 0, _EXISTS):
        raise SparseRuntimeError("CUDA", "no GPU found", "an NVIDIA GPU")
    major, minor = str(attribute(gpu, 0, _COMPUTE_VERSION)).split(".")
    return int(major), int(minor)


def _runs(arch: str, here: tuple[int, int]) -> bool:
    """Whether a GPU of compute capability ``here`` runs machine code for ``arch``."""
    digits = arch.removeprefix("sm_")
    return here[0] == int(digits[:-1]) and here[1] >= int(digits[-1])
