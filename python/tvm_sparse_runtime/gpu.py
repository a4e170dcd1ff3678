"""NVIDIA GPUs: TVM's CUDA runtime, whether the GPU fits an artifact, and copies to and from it."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from . import engine
from .errors import RuntimeArtifactError, SparseRuntimeError
from .spec import ALIGNMENT
from .threads import call_lock

_EXISTS, _COMPUTE_VERSION = 0, 4
"""What TVM calls these properties of a device."""

_DEFAULT = 0
"""The default stream."""


def best(offered: Sequence[Sequence[str]], where: str) -> int:
    """Load TVM's CUDA runtime, and return the place of the best of several programs for the GPU.

    Machine code for ``sm_XY`` runs on GPUs of the same major version X and at least Y, code for
    ``sm_XYa`` on those of X.Y alone. The best is made for the newest architecture that runs here,
    and of equals for that alone.

    Parameters
    ----------
    offered
        The architectures that each program has code for.
    where
        The name of their artifact.

    Raises
    ------
    SparseRuntimeError
        If there is no CUDA, no driver or no GPU.
    RuntimeArtifactError
        If the GPU runs none of them.
    """
    _load()
    here = _compute_capability()
    running = [[_rank(arch) for arch in archs if _runs(arch, here)] for archs in offered]
    if not any(running):
        raise RuntimeArtifactError(
            where,
            f"made for {', '.join(arch for archs in offered for arch in archs)}, "
            f"this GPU is sm_{here[0]}{here[1]}",
            "the same major version, and not a newer minor one",
            f"compile for cuda:sm_{here[0]}{here[1]}",
        )
    return max(range(len(offered)), key=lambda place: max(running[place], default=(0, False)))


def require(archs: Sequence[str], where: str) -> None:
    """Refuse a GPU that cannot run code for ``archs``, and take it for Python.

    Raises
    ------
    SparseRuntimeError, RuntimeArtifactError
        As :func:`best`; or C or C++ runs programs on the GPU in this process.
    """
    best([archs], where)
    # Last: what cannot run here leaves the GPU to the other language.
    if not engine.function("tvm_sparse.taken_by_python")():
        raise SparseRuntimeError(
            "CUDA",
            "C or C++ runs programs on the GPU in this process",
            "programs that run there from one language",
            "open the artifact from C",
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
    return _copied(tensor, engine.empty(tensor.shape, str(tensor.dtype), device), device)


class Staging:
    """A GPU's memory for inputs that lie on the host: kept, since to free it waits for the GPU.

    Calls take turns, so the next one's copies follow what this one computes.
    """

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}

    def moved(self, tensors: Sequence[Any], device: str) -> list[Any]:
        """Return each input that lies on ``device``, and copies there of the others."""
        return [self._moved(place, tensor, device) for place, tensor in enumerate(tensors)]

    def _moved(self, place: int, tensor: Any, device: str) -> Any:
        if home(tensor) == device:
            return tensor
        kept = self._kept.get(place)
        if kept is None or kept.shape != tensor.shape:
            self._kept[place] = kept = engine.empty(tensor.shape, str(tensor.dtype), device)
        return _copied(tensor, kept, device)


def prepared(vm: Any, weights: Sequence[Any]) -> list[Any]:
    """Return what a library makes of a program's weights once; it wants a turn.

    The program's functions ``prepare0``, ``prepare1``, … unpack one weight each, for a moment.
    """
    made: list[Any] = []
    while vm.implements_function(name := f"prepare{len(made)}"):
        made.append(engine.function("tvm_sparse.two_four.compressed")(vm[name](*weights)))
    if made:  # what was unpacked is not wanted any more
        engine.function("vm.builtin.memory_manager.clear")()
    return made


def _copied(tensor: Any, result: Any, device: str) -> Any:
    """Copy a contiguous tensor to ``result`` on ``device``, and return that.

    TVM copies on the default stream, for which those of torch do not wait by themselves.
    """
    stream = _environment()
    _follow(_DEFAULT, stream)
    engine.function("runtime.TVMTensorCopyFromTo")(tensor, result)
    if device == "cpu":
        engine.function("runtime.Device_StreamSync")(_gpu(), _DEFAULT)
    else:
        _follow(stream, _DEFAULT)
    return result


class Turns:
    """Calls of this process on its GPU: one after the other, each on its caller's stream.

    The host only launches kernels, and TVM's pool lends what the host is done with to whoever asks
    next, on any stream. So a call on another stream than the last one waits for it, on the GPU.
    """

    def __init__(self) -> None:
        self._lock, self._last = call_lock(), _DEFAULT

    @contextmanager
    def take(self, values: Sequence[Any] = ()) -> Iterator[None]:
        """Let what follows run on the stream of ``values``, behind what ran before.

        That is torch's current one where they are torch's tensors on a GPU, else the default one
        or what ``tvm_ffi.use_raw_stream`` has set.
        """
        with self._lock:
            stream = _stream_of(values)
            _follow(stream, self._last)
            self._last = stream
            with engine.ffi().use_raw_stream(_gpu(), stream):
                yield


_turns, _no_turn = Turns(), nullcontext()


def turn(device: str, values: Sequence[Any] = ()) -> AbstractContextManager[None]:
    """Return what work on ``device`` is done in: on a GPU, a turn that ``values`` are given to."""
    return _no_turn if device == "cpu" else _turns.take(values)


def _stream_of(values: Sequence[Any]) -> int:
    torch = sys.modules.get("torch")
    if torch is not None:
        for value in values:
            if isinstance(value, torch.Tensor) and value.is_cuda:
                return int(torch.cuda.current_stream(value.device).cuda_stream)
    return _environment()


def _environment() -> int:
    """Return the stream that TVM launches on in this thread."""
    return int(engine.ffi().get_raw_stream(_gpu()) or _DEFAULT)


def _follow(stream: int, other: int) -> None:
    """Let work that is put on ``stream`` from now on wait for what ``other`` has to do."""
    if stream != other:
        engine.function("runtime.Device_StreamSyncFromTo")(_gpu(), other, stream)


def _gpu() -> Any:
    return engine.ffi().device("cuda", 0)


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
    engine.function("tvm_sparse.watch_machines")()


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


def _rank(arch: str) -> tuple[int, bool]:
    """Return what the better of two architectures has more of: ten times the version, alone."""
    return int(arch.removeprefix("sm_").removesuffix("a")), arch.endswith("a")


def _runs(arch: str, here: tuple[int, int]) -> bool:
    """Whether a GPU of compute capability ``here`` runs machine code for ``arch``."""
    major, minor = divmod(_rank(arch)[0], 10)
    return here == (major, minor) or (
        not arch.endswith("a") and here[0] == major and here[1] > minor
    )
