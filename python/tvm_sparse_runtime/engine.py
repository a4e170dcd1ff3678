"""The one place that starts TVM's runtime library, without its compiler and without torch."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .errors import SparseRuntimeError
from .spec import ALIGNMENT, nbytes

_POOLED = 2
"""TVM's allocator that keeps released memory for reuse."""

DEVICE_TYPES = {"cpu": 1, "cuda": 2}
"""DLPack's device types of the devices that programs run on."""


CARRIED = Path(__file__).parent / "tvm"
"""The runtime of TVM, without its compiler, in a wheel of this package."""


@functools.cache
def ffi() -> Any:
    """Return ``tvm_ffi`` with TVM's runtime library and ours loaded behind it.

    Raises
    ------
    SparseRuntimeError
        If apache-tvm, apache-tvm-ffi or our own library is not installed.
    """
    os.environ.setdefault(
        "TVM_BIND_THREADS", "0"
    )  # else TVM's own pool takes the caller's affinity
    with _torch_left_alone():
        try:
            import tvm_ffi
        except ImportError as error:
            raise _not_installed("apache-tvm-ffi", error) from error
    try:
        ctypes.CDLL(str(runtime_library()), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise _not_installed("apache-tvm", error) from error
    from . import config  # a program, too: `python -m` warns of one that its package has imported

    try:
        ctypes.CDLL(str(config.library()))
    except OSError as error:
        raise _not_installed("tvm-sparse-runtime", error) from error
    tvm_ffi.get_global_func("tvm_sparse.start_engine")()
    return tvm_ffi


def open_library(name: str) -> Any:
    """Return the module in a library that stays open for good: tensors point into it.

    ``name`` may have any suffix.
    """
    ffi()
    opened = function("ffi.Module.load_from_file.so")(name, "so")
    function("ffi.ModuleGlobalsAdd")(opened)
    return opened


def start(executable: Any, device: str = "cpu") -> Any:
    """Make a virtual machine of a loaded or just-compiled Relax executable.

    Parameters
    ----------
    executable
        A module with the function ``vm_load_executable``: a loaded library, or
        ``tvm.compile(...).jit()``.
    device
        A key of :data:`DEVICE_TYPES`; a GPU must have been checked by
        :func:`~tvm_sparse_runtime.gpu.require`.

    Returns
    -------
    vm
        The initialised virtual machine; its functions are its items (``vm["main"]``).
    """
    if device not in DEVICE_TYPES:
        raise SparseRuntimeError("device", f"{device!r}", f"one of {', '.join(DEVICE_TYPES)}")
    ffi()
    vm = executable["vm_load_executable"]()
    # Shapes are computed on the host, whatever the device.
    used = [device] if device == "cpu" else [device, "cpu"]
    vm["vm_initialization"](*(n for name in used for n in (DEVICE_TYPES[name], 0, _POOLED)))
    return vm


def together(main: Any) -> Any:
    """Return the function ``main``, the parallel loops of whose calls are shared by one crew.

    TVM would take up its workers anew for each loop; see ``native/src/crew.h``. Short calls use
    one thread. It is for one call at a time.
    """
    return function("tvm_sparse.together")(main)


def tensor(array: Any) -> Any:
    """Return a ``tvm_ffi.Tensor`` on the memory of ``array``, also when that is read-only.

    TVM asks for the oldest DLPack, which cannot say "read-only", so NumPy refuses; the newer
    capsule is asked for first (NumPy 1 has none: there a read-only array is copied). Compiled
    functions never write to their inputs.
    """
    module = ffi()
    if isinstance(array, module.Tensor):
        return array
    # Bfloat16 is of ml_dtypes, and asking any dtype for its name takes long.
    own = isinstance(array, np.ndarray) and array.dtype.kind == "V"
    if own and array.dtype.name == "bfloat16":
        return view(tensor(array.view(np.uint16)), array.shape, "bfloat16")
    if not hasattr(type(array), "__dlpack_c_exchange_api__"):
        try:
            return module.from_dlpack(array.__dlpack__(max_version=(1, 0)))
        except (TypeError, AttributeError):
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                array = array.copy()  # the producer does not know versions
    return module.from_dlpack(array)


def empty(shape: Sequence[int], dtype: str, device: str = "cpu") -> Any:
    """Return a new tensor, aligned as kernels need it.

    Raises
    ------
    SparseRuntimeError
        If there is no memory for it.
    """
    extents, kind, place = _described(tuple(shape), dtype, device)
    if device == "cpu":
        try:
            return function("tvm_sparse.empty")(extents, kind)
        except RuntimeError as error:
            found = f"{nbytes(tuple(shape), dtype)} bytes refused"
            raise SparseRuntimeError("memory", found, "enough, or smaller inputs") from error
    return function("runtime.TVMTensorAllocWithScope")(extents, kind, place, None)


@functools.lru_cache(maxsize=1024)
def _described(shape: tuple[int, ...], dtype: str, device: str) -> tuple[Any, Any, Any]:
    """Return TVM's own forms, which take longer to make than small tensors."""
    module = ffi()
    return module.Shape(shape), module.dtype(dtype), module.device(device, 0)


def copy(source: Any, destination: Any, size: int | None = None) -> Any:
    """Copy a contiguous tensor of any alignment into an equal one and return that.

    ``size`` is that of both in bytes, where it is known.
    """
    count = span(source)[1] if size is None else size
    ctypes.memmove(destination.data_ptr(), source.data_ptr(), count)
    return destination


def aligned(tensor: Any) -> Any:
    """Return a contiguous tensor as kernels need it: ``tensor`` itself, or a copy.

    Kernels use aligned moves, so that a misaligned pointer would end the process. Empty tensors are
    made anew because NumPy gives them strides of zero, which kernels refuse.
    """
    if tensor.data_ptr() % ALIGNMENT or 0 in tensor.shape:
        return copy(tensor, empty(tensor.shape, str(tensor.dtype)))
    return tensor


def span(tensor: Any) -> tuple[int, int]:
    """Return the address and the bytes of a contiguous host tensor."""
    return tensor.data_ptr(), nbytes(tensor.shape, str(tensor.dtype))


def view(buffer: Any, shape: Sequence[int], dtype: str) -> Any:
    """Return a tensor of another shape and dtype on the memory of the tensor ``buffer``."""
    module = ffi()
    create = function("runtime.TVMTensorCreateView")
    return create(buffer, module.Shape(tuple(shape)), module.dtype(dtype), 0)


@functools.cache
def function(name: str) -> Any:
    """Return a function of TVM's registry."""
    return ffi().get_global_func(name)


def runtime_library() -> Path:
    """Return the path of ``libtvm_runtime.so``, without importing ``tvm``.

    It is the one of apache-tvm where that is installed, so that a process that imports ``tvm``
    before or after has one copy; else the one that this package carries.
    """
    spec = importlib.util.find_spec("tvm")
    installed = (spec.submodule_search_locations or ()) if spec else ()
    for place in (*installed, CARRIED):
        path = Path(place) / "lib" / "libtvm_runtime.so"
        if path.is_file():
            return path
    raise OSError("libtvm_runtime.so was not found")


def _not_installed(distribution: str, error: Exception) -> SparseRuntimeError:
    return SparseRuntimeError(
        distribution,
        f"cannot be loaded ({error})",
        "an installed wheel",
        f"pip install {distribution}",
    )


class _NoTorch:
    """Import hook that hides torch from the thread that made it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Raise for torch in our thread; know nothing of other modules."""
        if name == "torch" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("torch is not needed here", name=name)
        result: ModuleSpec | None = None
        return result


@contextmanager
def _torch_left_alone() -> Iterator[None]:
    """Keep ``tvm_ffi`` from importing torch (seconds, 300 MB) and from compiling against it."""
    hook, variable = _NoTorch(), "TVM_FFI_DISABLE_TORCH_C_DLPACK"
    unset = variable not in os.environ
    os.environ.setdefault(variable, "1")
    sys.meta_path.insert(0, hook)
    try:
        yield
    finally:
        sys.meta_path.remove(hook)
        if unset:
            del os.environ[variable]
