"""Manifests that need no compiler."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from tvm_sparse_runtime.manifest import (
    FILE_NAME,
    FileRecord,
    Manifest,
    TargetRecord,
    Weight,
    library_name,
)
from tvm_sparse_runtime.spec import TensorSpec

CONTENT = b"no ELF file at all" * 10


def manifest(**changes: Any) -> Manifest:
    """Return a sound manifest for this machine whose library has the bytes ``CONTENT``."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    name = library_name(digest)
    fields: dict[str, Any] = {
        "versions": {
            "tvm": importlib.metadata.version("apache-tvm"),
            "tvm_ffi": importlib.metadata.version("apache-tvm-ffi"),
            "tvm_sparse": "0.1.0",
        },
        "target": TargetRecord("llvm", platform.machine(), "generic", ()),
        "inputs": (TensorSpec("x", ("batch", 4), "float32"),),
        "outputs": (TensorSpec("y", ("batch",), "int64"),),
        "weights": (Weight("w", "float16", (3, 5), 0), Weight("b", "int8", (), 64)),
        "library": name,
        "files": {name: FileRecord(digest, len(CONTENT))},
        "threads": 2,
        "decisions": ({"layer": "fc", "us": 1.5, "shape": [3, 5]},),
    }
    return Manifest(**{**fields, **changes})


def write(directory: Path, document: bytes | None = None) -> Path:
    """Write an artifact whose library cannot be opened."""
    directory.mkdir()
    loaded = manifest()
    (directory / FILE_NAME).write_bytes(loaded.to_bytes() if document is None else document)
    (directory / loaded.library).write_bytes(CONTENT)
    return directory


def signed(body: dict[str, Any]) -> bytes:
    """Return ``body`` as a document with the checksum that belongs to it."""
    rest = {k: v for k, v in body.items() if k != "checksum"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return json.dumps({**rest, "checksum": digest}).encode()
