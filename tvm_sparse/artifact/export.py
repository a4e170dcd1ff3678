"""Write an artifact: one library with its weights inside, and a manifest."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.artifact import cpu, staging
from tvm_sparse.artifact.link import Program, link
from tvm_sparse.artifact.weights import shared_section
from tvm_sparse.base.names import printable
from tvm_sparse.base.targets import cuda_archs
from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime import trust, verification
from tvm_sparse_runtime.errors import SparseRuntimeError
from tvm_sparse_runtime.extents import Bounds
from tvm_sparse_runtime.manifest import (
    FILE_NAME,
    REFRESH_FILE,
    Alternative,
    FileRecord,
    Manifest,
    TargetRecord,
    Weight,
)
from tvm_sparse_runtime.parsing import parse
from tvm_sparse_runtime.spec import TensorSpec
from tvm_sparse_runtime.structure import Structure


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
    structure: Structure | None = None,
    unaligned: Sequence[int] = (),
    ranges: Sequence[str] = (),
    ptx: bool = False,
    force: bool = False,
    sign: trust.Key | None = None,
    alternatives: Sequence[Program] = (),
    recipe: bytes | None = None,
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
    structure
        How inputs and outputs are nested; None if they are not.
    unaligned
        Numbers of the inputs that may begin on any multiple of their elements' size.
    ranges
        Why extents have narrower bounds than were asked for, a phrase each.
    ptx
        Hold PTX for the emulated driver instead of a GPU's machine code.
    force
        Replace an existing artifact.
    sign
        A private Ed25519 key, or the path of its PEM file, to sign the manifest with.
    alternatives
        The same program for other CPUs or GPUs; machines take the best that they can run.
    recipe
        The document that :func:`tvm_sparse.program.refresh.refresh` needs.

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
    key = None if sign is None else trust.private_key(sign)
    programs = [Program(executable, weights, target, decisions), *alternatives]
    arrays, tables = shared_section(weights, [program.weights for program in alternatives])
    records = [_target_record(program) for program in programs]
    described = {
        "versions": _versions(),
        "inputs": tuple(inputs),
        "outputs": tuple(outputs),
        "bounds": dict(bounds or {}),
        "threads": threads,
        "structure": structure,
        "unaligned": tuple(unaligned),
        "ranges": tuple(ranges),
    }
    with written(directory) as place:
        decided = [tuple(program.decisions) for program in programs]
        parts = [_Part(*part) for part in zip(records, tables, decided, strict=True)]
        parts = _linked(parts, programs, arrays, described, place, ptx=ptx)
        manifest = _with_recipe(_manifest(parts, described), place, recipe)
        write_manifest(manifest, place, key)
    return manifest


@dataclass(frozen=True)
class _Part:
    """What a manifest says of one program."""

    target: TargetRecord
    weights: tuple[Weight, ...]
    decisions: tuple[Mapping[str, Any], ...]
    library: str = ""
    code: str = ""
    record: FileRecord | None = None

    def fields(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "record"}


def _linked(
    parts: Sequence[_Part],
    programs: Sequence[Program],
    arrays: Mapping[str, np.ndarray],
    described: Mapping[str, Any],
    place: Path,
    *,
    ptx: bool,
) -> list[_Part]:
    """Link the libraries into ``place``; the first has all weights. Return their parts."""
    found: list[_Part] = []
    bound = _manifest(parts, described).programs()
    for part, program, manifest in zip(parts, programs, bound, strict=True):
        held = {} if found else arrays
        found.append(replace(part, **link(program, held, manifest.signature(), place, ptx=ptx)))
    return found


def _manifest(parts: Sequence[_Part], described: Mapping[str, Any]) -> Manifest:
    return Manifest(
        **parts[0].fields(),
        **described,
        files={part.library: part.record for part in parts if part.record is not None},
        alternatives=tuple(Alternative(**part.fields()) for part in parts[1:]),
    )


def _with_recipe(manifest: Manifest, place: Path, recipe: bytes | None) -> Manifest:
    """Write a recipe where there is one, and list it among the files."""
    if recipe is None:
        return manifest
    (place / REFRESH_FILE).write_bytes(recipe)
    record = FileRecord(hashlib.sha256(recipe).hexdigest(), len(recipe))
    return replace(manifest, files={**manifest.files, REFRESH_FILE: record})


def write_manifest(manifest: Manifest, place: Path, key: Any) -> None:
    """Write ``manifest.json``, and its signature where there is a key."""
    document = _document(manifest)
    (place / FILE_NAME).write_bytes(document)
    if key is not None:
        (place / trust.SIGNATURE_FILE).write_bytes(key.sign(trust.message(document)))


@contextlib.contextmanager
def written(directory: Path) -> Iterator[Path]:
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
    if not _is_text(str(directory)):
        raise ArtifactError(printable(str(directory)), "no text in UTF-8", "a path that is one")
    if not directory.name:  # the root, which has nothing above it
        raise ArtifactError(str(directory), "it is no place of its own", "a new directory")
    above = next(p for p in directory.parents if os.path.lexists(p))
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


def _is_text(path: str) -> bool:
    """Whether TVM, which takes paths in UTF-8, and the system can take ``path``."""
    return "\0" not in path and not any("\ud800" <= letter <= "\udfff" for letter in path)


def _artifact_files(directory: Path) -> set[str]:
    """Return the names that belong to the artifact in ``directory``; empty if it is none."""
    try:
        return {FILE_NAME, trust.SIGNATURE_FILE, *verification.read_manifest(directory).files}
    except SparseRuntimeError:
        return set()


def _versions() -> dict[str, str]:
    names = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi", "tvm_sparse": "tvm-sparse"}
    return {key: importlib.metadata.version(name) for key, name in names.items()}


def _target_record(program: Program) -> TargetRecord:
    return TargetRecord(
        kind=str(program.target.kind.name),
        machine=cpu.machine(program.host),
        mcpu=str(program.host.attrs.get("mcpu") or "generic"),
        cpu_features=tuple(cpu.required_cpu_features(program.host)),
        gpu_archs=cuda_archs(program.target),
    )


def _document(manifest: Manifest) -> bytes:
    """Return the manifest's text, read back once so that nothing unreadable is ever written."""
    try:
        document = manifest.to_bytes()
        parse(document)
    except (TypeError, ValueError, SparseRuntimeError) as error:
        raise ArtifactError(FILE_NAME, f"cannot be written ({error})") from error
    return document
