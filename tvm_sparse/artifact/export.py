"""Write an artifact: one library with its weights inside, and a manifest."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tvm.support import cc

from tvm_sparse.artifact import cpu, section, staging
from tvm_sparse.artifact.cubin import packing
from tvm_sparse.artifact.weights import weight_stream, weight_table
from tvm_sparse.errors import ArtifactError
from tvm_sparse.targets import cuda_archs
from tvm_sparse_runtime import elf, files, trust, verification
from tvm_sparse_runtime.errors import SparseRuntimeError
from tvm_sparse_runtime.extents import Bounds
from tvm_sparse_runtime.manifest import (
    FILE_NAME,
    FileRecord,
    Manifest,
    TargetRecord,
    library_name,
)
from tvm_sparse_runtime.parsing import parse
from tvm_sparse_runtime.spec import TensorSpec

_REASON_LETTERS = 400
"""How much of a linker's last words an error repeats."""


def export(
    executable: Any,
    weights: Mapping[str, np.ndarray],
    *,
    directory: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    target: Any,
    decisions: Sequence[Mapping[str, Any]] = (),
    threads: int | None = None,
    bounds: Bounds | None = None,
    ptx: bool = False,
    force: bool = False,
    sign: trust.Key | None = None,
) -> Manifest:
    """Write the artifact ``directory``; it appears whole or not at all.

    Parameters
    ----------
    executable
        What ``tvm.compile`` returned for a module whose ``main`` takes the inputs, then the
        weights in the order of ``weights``.
    weights
        Arrays by name.
    directory
        Place of the artifact.
    inputs, outputs
        Specifications in call order.
    target
        The ``tvm.target.Target`` it was compiled for.
    decisions
        Free JSON, one object for each layer.
    threads
        Threads that the loader shall use; None for all physical cores.
    bounds
        Smallest and largest extent of symbols in the inputs' shapes.
    ptx
        Hold PTX for the emulated driver instead of a GPU's machine code.
    force
        Replace an existing artifact.
    sign
        A private Ed25519 key, or the path of its PEM file, to sign the manifest with.

    Returns
    -------
    manifest
        What was written to ``manifest.json``.

    Raises
    ------
    ArtifactError
        If ``directory`` is taken, there is no C++ compiler, or linking or writing fails.
    InputError
        If a weight is not finite or has a dtype that artifacts do not hold.
    """
    directory = Path(directory).absolute()
    check_place(directory, force)
    described = _described(target, inputs, outputs, weights, bounds or {})
    described |= {"threads": threads, "decisions": tuple(decisions)}
    compiler, key = _compiler(), None if sign is None else trust.private_key(sign)
    with _written(directory) as place:
        signature = Manifest(library="", code="", files={}, **described).signature()
        code = packing(target, ptx=ptx)
        library = _library(executable, weights, target, place, (compiler, signature, code))
        manifest = Manifest(**_library_fields(library), **described)
        _write_manifest(manifest, place, key)
    return manifest


def _write_manifest(manifest: Manifest, place: Path, key: Any) -> None:
    """Write ``manifest.json``, and its signature where there is a key."""
    document = _document(manifest)
    (place / FILE_NAME).write_bytes(document)
    if key is not None:
        (place / trust.SIGNATURE_FILE).write_bytes(key.sign(trust.message(document)))


def _described(
    target: Any,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    weights: Mapping[str, np.ndarray],
    bounds: Bounds,
) -> dict[str, Any]:
    """Return the fields of a manifest that its library is bound to."""
    return {
        "versions": _versions(),
        "target": _target_record(target),
        "inputs": tuple(inputs),
        "outputs": tuple(outputs),
        "weights": weight_table(weights),
        "bounds": dict(bounds),
    }


@contextlib.contextmanager
def _written(directory: Path) -> Iterator[Path]:
    """Yield where to write what becomes ``directory``, safe on the disk, when all went well."""
    try:
        with staging.staged(directory) as place:
            yield place
            for path in place.iterdir():
                staging.sync(path)
    except OSError as error:
        raise ArtifactError(str(directory), f"cannot be written ({error})") from error


def check_place(directory: Path, force: bool) -> None:
    """Refuse a place where something else lies, or where nothing may be written."""
    above = next(p for p in directory.parents if p.exists())
    try:
        with tempfile.TemporaryDirectory(dir=above):
            pass
    except OSError as error:
        raise ArtifactError(str(directory), f"cannot be written ({error})") from error
    if not os.path.lexists(directory):
        return
    if not directory.is_dir() or directory.is_symlink():
        raise ArtifactError(str(directory), "it is a file or a link", "a new directory")
    names = {path.name for path in directory.iterdir()}
    if not names:
        return
    if not names <= _artifact_files(directory):
        raise ArtifactError(
            str(directory),
            "it holds files that are not of an artifact",
            "a new directory",
            "choose another place or remove it yourself",
        )
    if not force:
        raise ArtifactError(
            str(directory), "there is an artifact already", "a new directory", "or use force"
        )


def _artifact_files(directory: Path) -> set[str]:
    """Return the names that belong to the artifact in ``directory``; empty if it is none."""
    try:
        return {FILE_NAME, trust.SIGNATURE_FILE, *verification.read_manifest(directory).files}
    except SparseRuntimeError:
        return set()


def _compiler() -> str:
    """Return the system's C++ compiler, which assembles and links."""
    compiler = cc.get_cc()
    if compiler is None or shutil.which(compiler) is None:
        raise ArtifactError(
            compiler or "C++ compiler",
            "not found",
            "a C++ compiler that links libraries",
            "install one (for example the package g++) or set CXX",
        )
    return str(compiler)


def _library(
    executable: Any,
    weights: Mapping[str, np.ndarray],
    target: Any,
    place: Path,
    tools: tuple[str, str, dict[str, Any]],
) -> Path:
    """Link the library into ``place``, under the name that its content gives it.

    ``tools`` are the compiler, the manifest's signature and what packs a GPU's code.
    """
    compiler, signature, code = tools
    size = sum(array.nbytes for array in weights.values())  # but for padding
    large = cpu.machine(_host(target)) == "x86_64" and size >= section.LARGE_BYTES
    workspace = place / "build"
    workspace.mkdir()
    packed = section.WeightSection(weight_stream(weights), workspace, compiler, large=large)
    linked = place / "model.so"
    objects = [*packed.objects, section.signature_object(signature, workspace, compiler)]
    try:
        executable.export_library(
            str(linked),
            addons=[str(path) for path in objects],
            workspace_dir=str(workspace),
            cc=compiler,
            **code,
        )
    except RuntimeError as error:
        reason = str(error).partition("\nCommand line:")[0].strip()[-_REASON_LETTERS:]
        raise ArtifactError(compiler, f"cannot link the library ({reason})") from error
    packed.check(linked)
    shutil.rmtree(workspace)
    with files.opened(linked) as descriptor:
        return linked.rename(place / library_name(files.sha256(descriptor)))


def _library_fields(path: Path) -> dict[str, Any]:
    """Return the fields of a manifest that tell about its library."""
    with files.opened(path) as descriptor:
        size = files.size_of(descriptor)
        begin, end = elf.SharedObject(descriptor, str(path)).weights()
        code = files.sha256(descriptor, (0, begin), (end, size))
        record = FileRecord(files.sha256(descriptor), size)
    return {"library": path.name, "code": code, "files": {path.name: record}}


def _versions() -> dict[str, str]:
    names = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi", "tvm_sparse": "tvm-sparse"}
    return {key: importlib.metadata.version(name) for key, name in names.items()}


def _target_record(target: Any) -> TargetRecord:
    host = _host(target)
    return TargetRecord(
        kind=str(target.kind.name),
        machine=cpu.machine(host),
        mcpu=str(host.attrs.get("mcpu") or "generic"),
        cpu_features=tuple(cpu.required_cpu_features(host)),
        gpu_archs=cuda_archs(target) if target.kind.name == "cuda" else (),
    )


def _host(target: Any) -> Any:
    """Return the CPU's part of a target."""
    return target.host if target.kind.name == "cuda" else target


def _document(manifest: Manifest) -> bytes:
    """Return the manifest's text, read back once so that nothing unreadable is ever written."""
    try:
        document = manifest.to_bytes()
        parse(document)
    except (TypeError, ValueError, SparseRuntimeError) as error:
        raise ArtifactError(FILE_NAME, f"cannot be written ({error})") from error
    return document
