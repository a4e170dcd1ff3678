"""An artifact on disk, verified, opened and ready to call."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from . import engine, files, gpu, verification
from .errors import RuntimeArtifactError, shown
from .fields import DAMAGED
from .manifest import WEIGHTS_SYMBOL, Manifest, Weight
from .session import Session
from .spec import TensorSpec
from .threads import choose as choose_threads


class Library(Session):
    """A :class:`Session` that came from an artifact.

    Attributes
    ----------
    path
        The artifact's directory.
    manifest
        What it says about itself.
    """

    def __init__(self, path: Path, manifest: Manifest, vm: Any, weights: list[Any]) -> None:
        device = device_of(manifest)
        super().__init__(
            vm, manifest.inputs, manifest.outputs, weights, device=device, bounds=manifest.bounds
        )
        self.path, self.manifest = path, manifest

    def __repr__(self) -> str:
        def listed(specs: tuple[TensorSpec, ...]) -> str:
            return ", ".join(map(str, specs))

        return f"Library({str(self.path)!r}: {listed(self.inputs)} -> {listed(self.outputs)})"


def device_of(manifest: Manifest) -> str:
    """Return the device that an artifact's code runs on."""
    return "cuda" if manifest.target.kind == "cuda" else "cpu"


def load(
    path: str | Path, *, verify: bool = True, copy: bool = False, threads: int | None = None
) -> Library:
    """Open the artifact in the directory ``path``.

    Loading an artifact runs its code. The checksums find damage, not malice: load only artifacts
    whose origin you trust.

    Parameters
    ----------
    path
        Directory that ``library.export()`` wrote.
    verify
        Compare the SHA-256 of the weights (about a second for each gigabyte). Everything else is
        always checked.
    copy
        Read the library into memory of this process before it is checked. By default code and
        weights are mapped: processes share them, but the process ends if somebody truncates the
        file while it is in use.
    threads
        Threads to run with. Default: ``TVM_NUM_THREADS`` if set, else what the artifact asks for,
        else all physical cores of this process.

    Returns
    -------
    library
        A GPU's weights are copied there once.

    Raises
    ------
    RuntimeArtifactError
        If the artifact is damaged or made for another machine or version; nothing of it has been
        opened then.
    """
    directory = Path(path)
    with verification.opened(directory, hashes=verify, copy=copy) as (manifest, descriptor):
        choose_threads(threads, manifest.threads)
        engine.ffi()
        if device_of(manifest) == "cuda":
            gpu.require(manifest.target.gpu_archs, str(directory))
        file = directory / manifest.library
        name = files.loadable_name(descriptor, file)
        try:
            vm = engine.start(engine.open_library(name), device_of(manifest))
            return Library(directory, manifest, vm, _mapped_weights(name, manifest))
        except (RuntimeError, AttributeError, OSError, ValueError) as error:
            raise RuntimeArtifactError(
                str(file),
                f"cannot be opened ({shown(str(error), 120)})",
                "a library of ours",
                DAMAGED,
            ) from error


def _mapped_weights(name: str, manifest: Manifest) -> list[Any]:
    """Return tensors on the weight section of the opened library, in the manifest's order."""
    if not manifest.weights:
        return []
    handle = ctypes.CDLL(name)
    first = ctypes.addressof(ctypes.c_uint8.in_dll(handle, WEIGHTS_SYMBOL))
    return [_mapped(first + weight.offset, weight) for weight in manifest.weights]


def _mapped(address: int, weight: Weight) -> Any:
    """Return a tensor on mapped memory, which outlives it because libraries are never closed."""
    if not weight.nbytes:
        return engine.empty(weight.shape, weight.dtype)
    raw = (ctypes.c_uint8 * weight.nbytes).from_address(address)
    section = np.frombuffer(memoryview(raw), np.uint8)
    return engine.view(engine.tensor(section), weight.shape, weight.dtype)
