"""A copy of an artifact with other weights: the library's code stays as it is."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tvm_sparse.artifact.export import check_place, write_manifest, written
from tvm_sparse.artifact.link import named
from tvm_sparse.artifact.weights import weight_stream
from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime import elf, files, verification
from tvm_sparse_runtime.fields import DAMAGED
from tvm_sparse_runtime.manifest import REFRESH_FILE, Manifest

Packed = Callable[[Manifest, bytes | None], Mapping[str, np.ndarray]]
"""Returns the new arrays, given the manifest and the graph that the artifact holds, if it does."""


def rewritten(artifact: Path, output: Path, packed: Packed, *, force: bool = False) -> Manifest:
    """Write a copy of ``artifact``, which is verified, whose weights are those of ``packed``."""
    output = Path(output).absolute()
    check_place(output, force)
    with verification.opened(Path(artifact), ask_gpu=False) as (old, (code, _)):
        document = _recipe(artifact, old)
        arrays = packed(old, document)
        with written(output) as place:
            library = place / "model.so"
            shutil.copyfile(code, library)
            _fill(library, old, arrays)
            name, digest, record = named(library, old.target.machine)
            if digest != old.code:
                raise ArtifactError(str(library), "its code changed", "", DAMAGED)
            (place / REFRESH_FILE).write_bytes(document or b"")
            kept = {REFRESH_FILE: old.files[REFRESH_FILE], name: record}
            manifest = replace(old, library=name, files=kept)
            write_manifest(manifest, place, None)
    return manifest


def _recipe(artifact: Path, old: Manifest) -> bytes | None:
    """Return the graph that an artifact holds, None if it holds none."""
    record = old.files.get(REFRESH_FILE)
    if record is None:
        return None
    document = (artifact / REFRESH_FILE).read_bytes()
    if hashlib.sha256(document).hexdigest() != record.sha256:
        raise ArtifactError(str(artifact / REFRESH_FILE), "it changed meanwhile", "", DAMAGED)
    return document


def _fill(library: Path, old: Manifest, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the weights into a library's section."""
    with files.opened(library) as descriptor:
        begin, end = elf.SharedObject(descriptor, str(library), old.target.machine).weights()
    with library.open("r+b") as file:
        file.seek(begin)
        for piece in weight_stream(arrays):
            file.write(piece)
        if file.tell() > end:
            raise ArtifactError(str(library), "its section is too small", "", DAMAGED)
