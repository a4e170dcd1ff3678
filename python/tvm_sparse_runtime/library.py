"""An artifact on disk, verified, opened and ready to call."""

from __future__ import annotations

import ctypes
import functools
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import engine, gpu, libraries, trust, verification
from .bound import Bound
from .errors import RuntimeArtifactError, SparseRuntimeError, shown
from .fields import DAMAGED
from .manifest import FILE_NAME, WEIGHTS_SYMBOL, Manifest, Weight
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
    ranges
        Why open extents have narrower bounds than were asked for, a phrase each.
    libraries
        A line for each library of the GPU's maker that layers ask: its version and file, or why our
        own kernels run instead.
    place
        The temporary folder that the artifact lies in, if it came from another process.

    Notes
    -----
    Copies share code and weights. Pickled, the artifact's files travel; like an artifact, what is
    unpickled runs code.
    """

    def __init__(self, path: Path, manifest: Manifest, executable: Any, weights: list[Any]) -> None:
        device = device_of(manifest)
        restart = functools.partial(_started, executable, device)
        super().__init__(
            restart(),
            manifest.inputs,
            manifest.outputs,
            weights,
            device=device,
            bounds=manifest.bounds,
            restart=restart,
            structure=manifest.structure,
            unaligned=manifest.unaligned,
        )
        self.path, self.manifest, self.ranges = path, manifest, manifest.ranges
        self.libraries = libraries.used(manifest.decisions)
        self.place: Any = None

    def bind(self, *values: Any) -> Bound:
        """Bind the program to inputs on the GPU that stay where they are.

        The whole call, from inputs to outputs, becomes one CUDA graph that uses these addresses:
        one launch, and no copy. Write new numbers into the inputs, then call what this returns.
        Each call overwrites the outputs of the one before.

        Parameters
        ----------
        *values
            One tensor on the GPU for each input, as :meth:`run` takes them: contiguous, at
            multiples of 64 bytes. They are kept.

        Returns
        -------
        bound
            Called without arguments; for other tensors, bind again.

        Raises
        ------
        TensorError
            A tensor does not fit its specification, or would have to be copied.
        SparseRuntimeError
            The program is for CPUs, or cannot be one graph: it waits for the GPU, or hands out an
            input or a weight.
        """
        return Bound(self, values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process makes it anew: from a copy of the artifact's files.

        Raises
        ------
        RuntimeArtifactError
            The artifact is not there any more, or another one is in its place.
        """
        return unpacked, (packed(self.path, self.manifest), self.threads)

    def __repr__(self) -> str:
        def listed(specs: tuple[TensorSpec, ...]) -> str:
            return ", ".join(map(str, specs))

        return f"Library({str(self.path)!r}: {listed(self.inputs)} -> {listed(self.outputs)})"


def packed(directory: Path, manifest: Manifest) -> dict[str, bytes]:
    """Return the content of an artifact's files by name."""
    if manifest not in verification.read_manifest(directory).programs():
        found = "another artifact is there than the one that was loaded"
        raise RuntimeArtifactError(str(directory), found, "the same", "load it again")
    names = [FILE_NAME, *manifest.files, trust.SIGNATURE_FILE]
    try:
        return {n: (directory / n).read_bytes() for n in names if (directory / n).exists()}
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        raise RuntimeArtifactError(str(directory), found, "the artifact as it was") from error


def unpacked(files: Mapping[str, bytes], threads: int | None) -> Library:
    """Return the library in files of an artifact, which lie in a temporary folder while it lives.

    Raises
    ------
    RuntimeArtifactError
        As :func:`load`.
    """
    place = _Folder()
    directory = Path(place.name, "model.tvms")
    directory.mkdir()
    for name, content in files.items():
        (directory / Path(name).name).write_bytes(content)
    library = load(directory, threads=threads)
    library.place = place
    return library


class _Folder:
    """A temporary folder that goes with the last library in it."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="tvm-sparse-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def _started(executable: Any, device: str) -> Any:
    """Return a virtual machine, whose constants are copied to ``device`` in turn."""
    with gpu.turn(device):
        return engine.start(executable, device)


def device_of(manifest: Manifest) -> str:
    """Return the device that an artifact's code runs on."""
    return "cuda" if manifest.target.kind == "cuda" else "cpu"


def load(
    path: str | Path,
    *,
    verify: bool = True,
    copy: bool | None = None,
    threads: int | None = None,
    trusted: Sequence[trust.Key] | None = None,
) -> Library:
    """Open the artifact in the directory ``path``.

    Loading an artifact runs its code. The checksums find damage, not malice: load only artifacts
    whose origin you trust, or let ``trusted`` check it.

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
        file while it is in use. With trusted keys the default is to copy, so that nobody can write
        to the file between check and use.
    threads
        Threads to run with. Default: ``TVM_NUM_THREADS`` if set, else what the artifact asks for,
        else all physical cores of this process.
    trusted
        Public keys (:data:`~tvm_sparse_runtime.trust.Key`), one of which must have signed the
        artifact. Default: the files that the environment variable ``TVM_SPARSE_TRUSTED`` names; if
        it is not set, signatures are not asked for.

    Returns
    -------
    library
        A GPU's weights are copied there once.

    Raises
    ------
    RuntimeArtifactError
        If the artifact is damaged, made for another machine or version, or not signed by a trusted
        key; nothing of it has been opened then.
    SparseRuntimeError
        If a key cannot be read, or ``verify=False`` is asked for with trusted keys.
    """
    directory = Path(path)
    keys = trust.trusted_keys(trusted)
    if keys is not None and not verify:
        found = "False, which leaves the weights unchecked"
        raise SparseRuntimeError("verify", found, "True where keys are trusted")
    copied = keys is not None if copy is None else copy
    checked = verification.opened(directory, hashes=verify, copy=copied, keys=keys)
    with checked as (manifest, names):
        choose_threads(threads, manifest.threads)
        engine.ffi()
        if device_of(manifest) == "cuda":
            gpu.require(manifest.target.gpu_archs, str(directory))
        if keys is not None and not all(name.startswith("/proc/") for name in names):
            found = "its library can only be opened by name, which another may take"
            raise RuntimeArtifactError(str(directory), found, "/proc, where keys are trusted")
        library = _opened(directory, manifest, *names)
        library.threads = threads
        return library


def _opened(directory: Path, manifest: Manifest, code: str, section: str) -> Library:
    """Open libraries that were checked, by the names that the dynamic loader takes."""
    try:
        executable = engine.open_library(code)
        return Library(directory, manifest, executable, _mapped_weights(section, manifest))
    except (RuntimeError, AttributeError, OSError, ValueError) as error:
        raise RuntimeArtifactError(
            str(directory / manifest.library),
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
