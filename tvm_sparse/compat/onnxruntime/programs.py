"""Programs behind a session: an artifact, or what an ONNX file becomes when it is first used."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
import os
import platform
import queue
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.base.cache_directory import cache_directory
from tvm_sparse.base.config import Config
from tvm_sparse.base.extras import require
from tvm_sparse.compat.onnxruntime.described import (
    ModelMetadata,
    NodeArg,
    metadata_of,
    of_specs,
    of_values,
)
from tvm_sparse.errors import InputError
from tvm_sparse_runtime import host
from tvm_sparse_runtime.library import Library, load

_log = logging.getLogger("tvm_sparse.compat.onnxruntime")

_PACKAGES = ("torch", "onnx", "apache-tvm", "apache-tvm-ffi", "tvm-sparse")


@dataclass(frozen=True)
class Fixed:
    """What a program is compiled for: inputs that are constants, and shapes of the others."""

    constants: tuple[tuple[str, Any], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __str__(self) -> str:
        said = [f"{name} = {value}" for name, value in self.constants]
        known = dict(self.constants)
        shapes = [(name, shape) for name, shape in self.shapes if name not in known]
        said += [f"{name} of {'x'.join(map(str, shape))}" for name, shape in shapes]
        return f" for {', '.join(said)}" if said else ""


class Artifact:
    """An artifact in a folder."""

    metadata = ModelMetadata()
    deciding: tuple[str, ...] = ()
    is_open = False

    def __init__(self, path: Path) -> None:
        self._library = load(path)
        self.inputs: list[NodeArg] = of_specs(self._library.inputs)
        self.outputs: list[NodeArg] = of_specs(self._library.outputs)

    def library(self, fixed: Fixed) -> Library:
        """Return the program, which is compiled already."""
        return self._library


class File:
    """An ONNX file, or its content; see :class:`.InferenceSession` for the parameters."""

    def __init__(self, source: Path | bytes, sizes: Mapping[str, int], config: Config) -> None:
        self.source, self._sizes, self._config = source, dict(sizes), config
        self.name = str(source) if isinstance(source, Path) else "the ONNX model"
        require("onnx", self.name)
        proto = self._proto()
        own = {tensor.name for tensor in proto.graph.initializer}
        said = of_values([v for v in proto.graph.input if v.name not in own])
        self.inputs = [replace(v, shape=[sizes.get(str(e), e) for e in v.shape]) for v in said]
        self._sized = [v for v, was in zip(self.inputs, said, strict=True) if v != was]
        self.outputs = of_values(proto.graph.output)
        self.metadata = metadata_of(proto)
        self.deciding = tuple(v.name for v in self.inputs if _may_decide(v))
        self._outside = sorted(
            {
                e.value
                for t in proto.graph.initializer
                for e in t.external_data
                if e.key == "location"
            }
        )

    def _proto(self) -> Any:
        """Return the model without weights that lie in other files."""
        import onnx

        try:
            if isinstance(self.source, bytes):
                return onnx.load_model_from_string(self.source)
            return onnx.load(self.source, load_external_data=False)
        except Exception as error:  # of the system and of protobuf
            reason = getattr(error, "strerror", None) or "is no sound ONNX model"
            raise InputError(self.name, reason, "an .onnx file or an artifact") from error

    @property
    def is_open(self) -> bool:
        """Whether an extent of an input may differ from call to call."""
        return any(not isinstance(e, int) for value in self.inputs for e in value.shape)

    def library(self, fixed: Fixed) -> Library:
        """Return the program for what is ``fixed``; it is compiled unless it was before.

        A line in the log says so before: the first start takes long.

        Raises
        ------
        SparseError
            It cannot be compiled.
        """
        from tvm_sparse.program.kept import opened_or_made

        place = cache_directory() / "onnx" / self._key(fixed)
        return opened_or_made(place, lambda: self._compiled(fixed, place))[0]

    def _compiled(self, fixed: Fixed, place: Path) -> Any:
        from tvm_sparse.frontends.load import load as imported
        from tvm_sparse.program.compiler import compile

        line = "compiles %s%s, which may take minutes; the next start opens %s"
        _log.warning(line, self.name, fixed, place)
        constants = {name: np.array(value) for name, value in fixed.constants}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.onnx") if isinstance(self.source, bytes) else self.source
            if isinstance(self.source, bytes):
                path.write_bytes(self.source)
            shapes = {**self._shapes(), **dict(fixed.shapes)}
            shapes = {name: shape for name, shape in shapes.items() if name not in constants}
            model = imported(path, shapes=shapes or None, constants=constants or None)
            return compile(model, config=self._config)

    def _shapes(self) -> dict[str, Sequence[int | str]]:
        """Return the shapes of inputs with an extent that a size was given for."""
        return {
            value.name: [e or f"{value.name}_{i}" for i, e in enumerate(value.shape)]
            for value in self._sized
        }

    def _key(self, fixed: Fixed) -> str:
        """Return a digest of all that the artifact depends on."""
        digest = hashlib.sha256()
        if isinstance(self.source, bytes):
            digest.update(self.source)
        else:
            for path in (self.source, *(self.source.parent / name for name in self._outside)):
                with path.open("rb") as file:
                    for block in iter(lambda: file.read(1 << 20), b""):
                        digest.update(block)
        threads = os.environ.get("TVM_NUM_THREADS", "") or host.physical_cores()
        machine = platform.node(), sorted(host.cpu_features()), threads
        versions = [importlib.metadata.version(name) for name in _PACKAGES]
        asked = fixed, sorted(self._sizes.items()), asdict(self._config)
        digest.update(repr((machine, versions, asked)).encode())
        return digest.hexdigest()


def _may_decide(value: NodeArg) -> bool:
    """Whether an input is one whole number, by which a graph may choose what it computes."""
    return value.type in ("tensor(int64)", "tensor(int32)", "tensor(bool)") and all(
        extent == 1 for extent in value.shape
    )


def opened(source: Any, sizes: Mapping[str, int], config: Config) -> Artifact | File:
    """Return what a session was given: a path, or the content of an ONNX file.

    Raises
    ------
    SparseError
        It is neither an artifact nor an ONNX file.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return File(bytes(source), sizes, config)
    if not isinstance(source, str | os.PathLike):
        found = f"is a {type(source).__name__}"
        raise InputError("path_or_bytes", found, "a path, or the content of an .onnx file")
    path = Path(source)
    if path.is_dir():
        return Artifact(path)
    if path.suffix == ".ort":
        found = "is in onnxruntime's own format"
        raise InputError(str(path), found, "the .onnx file that it was made from")
    return File(path, sizes, config)


class Calls:
    """Runs of one program, as many side by side as there are cores for their threads."""

    def __init__(self, library: Library, threads: int) -> None:
        cores = host.physical_cores()
        self._library, self._threads = library, min(threads, cores) or None
        self._idle: queue.LifoQueue[Library] = queue.LifoQueue()
        self._left, self._lock = max(cores // (self._threads or cores), 1), threading.Lock()

    def __call__(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the outputs of one run."""
        session = self._taken()
        try:
            return session.run(*values)
        finally:
            self._idle.put(session)

    def _taken(self) -> Library:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            with self._lock:
                new, self._left = self._left > 0, max(self._left - 1, 0)
            return self._library.clone(threads=self._threads) if new else self._idle.get()
