"""GPU machine code inside exported libraries, in place of the CUDA source that TVM would put there.

TVM packs the modules behind a library into one blob; without a driver it holds CUDA source, which
only a machine with TVM's Python and a CUDA compiler could load. ``export_library(fpack_imports=)``
is its hook for other packings.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm.target import Target

from tvm_sparse.base.targets import cuda_archs, newest_arch
from tvm_sparse.errors import ArtifactError
from tvm_sparse.schedules.cuda.machine_code import machine_code
from tvm_sparse.schedules.cuda.nvrtc import compile_source

Compile = Callable[[str], tuple[str, bytes]]
"""``source -> (format, code)``; the format is a name that TVM's CUDA runtime knows."""


def packing(target: Target, *, ptx: bool = False) -> dict[str, Any]:
    """Return what ``export_library`` needs besides, to put a GPU's machine code into the file.

    ``ptx``: text for the emulator instead.
    """
    archs = cuda_archs(target)
    if not archs:
        return {}
    made = to_ptx(target) if ptx else lambda source: machine_code(source, archs)
    return {"fpack_imports": packer(made)}


def to_ptx(target: Target, change: Callable[[str], str] = str) -> Compile:
    """Return what makes PTX of CUDA source, for the newest architecture of ``target``.

    ``change`` may change the text.
    """
    virtual = newest_arch(target).replace("sm_", "compute_")
    return lambda source: ("ptx", change(_ptx(source, virtual)).encode() + b"\0")


@functools.lru_cache(maxsize=16)
def _ptx(source: str, virtual: str) -> str:
    return compile_source(source, virtual).rstrip(b"\0").decode()


def packer(compile_: Compile) -> Callable[[Any, bool, str, str], str]:
    """Return an ``fpack_imports`` that embeds what ``compile_`` makes of each CUDA source."""

    def pack(module: Any, is_system_lib: bool, prefix: str, workspace: str) -> str:
        blob = _registered("runtime.ModulePackImportsToTensor")(module).numpy().tobytes()
        host = _find(module, "llvm").get_function("_get_target_string")()
        packed = _registered("codegen.codegen_blob")(
            rewrite_blob(blob, compile_), is_system_lib, host, prefix
        )
        path = Path(workspace, "devc.o")
        packed.write_to_file(str(path))
        return str(path)

    return pack


def rewrite_blob(blob: bytes, compile_: Compile) -> bytes:
    """Return a blob of packed modules with the CUDA sources in it compiled.

    Layout: size of the rest; offsets and children of the tree of modules; then for each module its
    kind and, unless that is ``_lib``, its own bytes. All counts are 64-bit, little-endian.

    Raises
    ------
    ArtifactError
        If the blob is laid out otherwise (another TVM).
    """
    reader = _Reader(blob)
    if reader.count() != len(blob) - 8:
        raise _foreign()
    modules = reader.count()
    reader.skip(8 * modules)
    reader.skip(8 * reader.count())
    parts = [blob[8 : reader.at]]
    for _ in range(modules - 1):
        kind = reader.text()
        parts.append(_sized(kind))
        if kind != b"_lib":
            parts.append(_sized(_compiled(kind, reader.text(), compile_)))
    if reader.at != len(blob):
        raise _foreign()
    body = b"".join(parts)
    return struct.pack("<Q", len(body)) + body


def _compiled(kind: bytes, record: bytes, compile_: Compile) -> bytes:
    """Return the bytes of a module; those of CUDA sources with machine code instead.

    A CUDA module is its format, a table of kernels (name, argument types, launch parameters), code.
    """
    if kind != b"cuda":
        return record
    reader = _Reader(record)
    if reader.text() != b"cuda":
        return record
    table = reader.at
    for _ in range(reader.count()):
        reader.text()
        reader.text()
        reader.skip(4 * reader.count())
        for _ in range(reader.count()):
            reader.text()
        reader.skip(4 * reader.count())
    kernels = record[table : reader.at]
    source = reader.text()
    if reader.at != len(record):
        raise _foreign()
    form, code = compile_(source.decode())
    return _sized(form.encode()) + kernels + _sized(code)


class _Reader:
    """Walks over a blob and refuses to read past its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise _foreign()

    def count(self) -> int:
        self.skip(8)
        (value,) = struct.unpack_from("<Q", self.data, self.at - 8)
        return int(value)

    def text(self) -> bytes:
        size = self.count()
        self.skip(size)
        return self.data[self.at - size : self.at]


def _sized(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _foreign() -> ArtifactError:
    return ArtifactError(
        "packed modules", "laid out in an unknown way", "those of the pinned apache-tvm"
    )


def _find(module: Any, kind: str) -> Any:
    """Return the first module of ``kind`` at or behind ``module``."""
    if module.kind == kind:
        return module
    found = (_find(behind, kind) for behind in module.imports)
    return next((module for module in found if module is not None), None)


def _registered(name: str) -> Any:
    return tvm_ffi.get_global_func(name)
