"""Compiled programs on disk, so that a second process does not compile them again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tvm_sparse.base.cache_directory import cache_directory
from tvm_sparse.base.targets import parse_target, threads_of
from tvm_sparse.dynamo.changes import content
from tvm_sparse.dynamo.options import Options
from tvm_sparse.dynamo.parts import Part
from tvm_sparse.errors import ArtifactError
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.program.compiler import compile
from tvm_sparse.program.kept import opened_or_made
from tvm_sparse.program.library import Library

_PACKAGES = ("torch", "apache-tvm", "apache-tvm-ffi", "tvm-sparse")


def compiled(program: torch.export.ExportedProgram, options: Options) -> Part:
    """Return ``program`` compiled, from the cache where an equal one was compiled before.

    Raises
    ------
    SparseError
        It cannot be compiled.
    """
    if not options.artifacts:
        library = compile(from_exported(program), target=options.place, config=options.config)
        return Part(library, False, tuple(library.decisions.to_json()), library.export)
    place = cache_directory() / "graphs" / key_of(program, options)

    def made() -> Library:
        return compile(from_exported(program), target=options.place, config=options.config)

    opened, new = opened_or_made(place, made)
    return Part(opened, new is None, opened.manifest.decisions, _copying(place))


def key_of(program: torch.export.ExportedProgram, options: Options) -> str:
    """Return a digest of all that the artifact of ``program`` depends on."""
    digest = hashlib.sha256(str(program.graph).encode())
    for node in program.graph.nodes:
        digest.update(f"{node.name} {_type(node.meta.get('val'))}\n".encode())
    digest.update(f"{program.graph_signature}{program.range_constraints}".encode())
    tensors = {**program.state_dict, **program.constants}
    digest.update(str(list(tensors)).encode())
    digest.update(content(list(tensors.values())).encode())
    digest.update(f"{options.place} {asdict(options.config)}".encode())
    target = parse_target(options.place).target
    digest.update(f"{target}{threads_of(target)}{platform.node()}".encode())
    digest.update(str([importlib.metadata.version(name) for name in _PACKAGES]).encode())
    return digest.hexdigest()


def _type(value: Any) -> str:
    return f"{value.dtype}{tuple(value.shape)}" if isinstance(value, torch.Tensor) else str(value)


def _copying(place: Path) -> Callable[[str | Path], Path]:
    def export(directory: str | Path) -> Path:
        """Copy the artifact to ``directory``, which must not be there yet."""
        target = Path(directory)
        if target.exists():
            raise ArtifactError(str(target), "is there already", "a new directory")
        return Path(shutil.copytree(place, target))

    return export
