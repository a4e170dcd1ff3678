"""All that is checked about an artifact before anything of it is opened as a library."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import stat
from pathlib import Path

from . import fields, host, manifest, parsing
from .errors import RuntimeArtifactError, shown
from .manifest import FileRecord, Manifest

_MANIFEST_LIMIT = 64 << 20
_CHUNK = 1 << 20
_KINDS = ("llvm", "cuda")
_DISTRIBUTIONS = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}


def verified_manifest(directory: Path, *, hashes: bool = True) -> Manifest:
    """Return the manifest of ``directory`` after every check has passed.

    Parameters
    ----------
    directory
        The artifact.
    hashes
        Whether the files' SHA-256 are compared too; names and sizes always are.

    Raises
    ------
    RuntimeArtifactError
        The first thing that is wrong.
    """
    result = read_manifest(directory)
    check_versions(result, directory)
    check_host(result, directory)
    check_files(result, directory, hashes=hashes)
    return result


def read_manifest(directory: Path) -> Manifest:
    """Read and check ``manifest.json`` alone."""
    path = directory / manifest.FILE_NAME
    try:
        if not directory.is_dir():
            found = "not a directory" if directory.exists() else "there is no such directory"
            raise RuntimeArtifactError(
                str(directory), found, "an artifact", "name a directory that library.export() wrote"
            )
        size = _regular_size(path)
        if size > _MANIFEST_LIMIT:
            raise RuntimeArtifactError(str(path), f"{size} bytes", "a manifest", fields.DAMAGED)
        return parsing.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise _unreadable(path, error) from error


def check_versions(loaded: Manifest, directory: Path) -> None:
    """Refuse an artifact of another TVM: bytecode and calling convention are not stable."""
    for key, distribution in _DISTRIBUTIONS.items():
        try:
            installed = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            installed = "not installed"
        if installed != loaded.versions[key]:
            raise RuntimeArtifactError(
                str(directory),
                f"made with {distribution} {loaded.versions[key]}, here it is {installed}",
                "the same version",
                f"pip install {distribution}=={loaded.versions[key]}, or export it again",
            )


def check_host(loaded: Manifest, directory: Path) -> None:
    """Refuse code for another architecture or for instructions this CPU lacks.

    Whether the GPU fits is checked by :func:`~tvm_sparse_runtime.gpu.require`.
    """
    target = loaded.target
    if target.kind not in _KINDS or (target.kind == "cuda") != bool(target.gpu_archs):
        raise RuntimeArtifactError(
            str(directory), f"made for {shown(target.kind)}", "a CPU (llvm) or NVIDIA GPU (cuda)"
        )
    if target.machine != platform.machine():
        raise RuntimeArtifactError(
            str(directory),
            f"made for {shown(target.machine)}, this machine is {platform.machine()}",
            "the same architecture",
            "compile for this machine",
        )
    missing = [f for f in target.cpu_features if f not in host.cpu_features()]
    if missing:
        raise RuntimeArtifactError(
            str(directory),
            f"made for the CPU {shown(target.mcpu)}, this one lacks {', '.join(missing[:8])}",
            "every instruction set it was compiled for",
            "compile for this CPU or for a smaller one such as x86-64-v3",
        )


def check_files(loaded: Manifest, directory: Path, *, hashes: bool) -> None:
    """Refuse a directory whose files are not exactly those of the manifest."""
    try:
        present = {path.name for path in directory.iterdir()} - {manifest.FILE_NAME}
        extra, missing = present - loaded.files.keys(), loaded.files.keys() - present
        if missing:
            raise RuntimeArtifactError(
                str(directory), f"the file {shown(min(missing))} is missing", "", fields.DAMAGED
            )
        if extra:
            raise RuntimeArtifactError(
                str(directory),
                f"the file {shown(min(extra))} does not belong to it",
                f"only {manifest.FILE_NAME} and the files it lists",
                "remove it",
            )
        for name, expected in loaded.files.items():
            _check_file(directory / name, expected, hashes=hashes)
    except OSError as error:
        raise _unreadable(directory, error) from error


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _check_file(path: Path, expected: FileRecord, *, hashes: bool) -> None:
    size = _regular_size(path)
    if size != expected.size:
        raise RuntimeArtifactError(
            str(path), f"{size} bytes", f"{expected.size} bytes", fields.DAMAGED
        )
    if hashes and sha256(path) != expected.sha256:
        raise RuntimeArtifactError(
            str(path), "its content does not match its SHA-256", "", fields.DAMAGED
        )


def _regular_size(path: Path) -> int:
    """Return the size of a regular file; a link could lead out of the directory."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise RuntimeArtifactError(
            str(path), "not a regular file", "a file, no link", "copy it with cp --dereference"
        )
    return status.st_size


def _unreadable(path: Path, error: OSError) -> RuntimeArtifactError:
    return RuntimeArtifactError(
        str(error.filename or path), f"cannot be read ({error.strerror})", "a complete artifact"
    )
