"""Manifests that need no compiler."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from tests.runtime import elves
from tvm_sparse_runtime import verification
from tvm_sparse_runtime.manifest import (
    FILE_NAME,
    FileRecord,
    Manifest,
    TargetRecord,
    Weight,
    library_name,
)
from tvm_sparse_runtime.spec import TensorSpec


def manifest(**changes: Any) -> Manifest:
    """Return a sound manifest for this machine whose library is :func:`content`."""
    described: dict[str, Any] = {
        "versions": {
            "tvm": importlib.metadata.version("apache-tvm"),
            "tvm_ffi": importlib.metadata.version("apache-tvm-ffi"),
            "tvm_sparse": "0.1.0",
        },
        "target": TargetRecord("llvm", platform.machine(), "generic", ()),
        "inputs": (TensorSpec("x", ("batch", 4), "float32"),),
        "outputs": (TensorSpec("y", ("batch",), "int64"),),
        "weights": (Weight("w", "float16", (3, 5), 0), Weight("b", "int8", (), 64)),
        "bounds": {"batch": (1, 16)},
        "threads": 2,
        "decisions": ({"layer": "fc", "us": 1.5, "shape": [3, 5]},),
        "structure": None,
    }
    described |= {key: changes.pop(key) for key in described.keys() & changes.keys()}
    bound = Manifest(library="", code="", files={}, **described)
    data = elves.library(bound.signature(), bytes(65))
    digest, code = (hashlib.sha256(part).hexdigest() for part in (data, data[:4096] + data[4161:]))
    name = library_name(digest)
    found = {"library": name, "code": code, "files": {name: FileRecord(digest, len(data))}}
    return Manifest(**{**found, **described, **changes})


def content(loaded: Manifest) -> bytes:
    """Return the library that ``loaded``, from :func:`manifest`, describes."""
    return elves.library(loaded.signature(), bytes(65))


CONTENT = content(manifest())


def write(directory: Path, document: bytes | None = None) -> Path:
    """Write an artifact whose library has no code."""
    directory.mkdir()
    loaded = manifest()
    (directory / FILE_NAME).write_bytes(loaded.to_bytes() if document is None else document)
    (directory / loaded.library).write_bytes(CONTENT)
    return directory


def verified_manifest(directory: Path, **options: Any) -> Manifest:
    """Return the manifest of an artifact that passes every check."""
    with verification.opened(directory, **options) as (loaded, _):
        return loaded


def signed(body: dict[str, Any]) -> bytes:
    """Return ``body`` as a document with the checksum that belongs to it."""
    rest = {k: v for k, v in body.items() if k != "checksum"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return json.dumps({**rest, "checksum": digest}).encode()
