"""Link the libraries of an artifact: code, a signature and, in the first, all weights."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tvm.support import cc

from tvm_sparse.artifact import cpu, section
from tvm_sparse.artifact.cubin import packing
from tvm_sparse.artifact.weights import weight_stream
from tvm_sparse.base.targets import is_launched
from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime import elf, files
from tvm_sparse_runtime.manifest import FileRecord, library_name

_REASON_LETTERS = 400
"""How much of a linker's last words an error repeats."""


_OPTIONS = ["-s", "-Wl,--build-id=none"]
"""TVM's code has tables for debuggers, larger than itself, of sources that nobody has. Names and
checksums tell libraries apart."""


@dataclass(frozen=True)
class Program:
    """What ``tvm.compile`` returned for ``target``, and the weights that its ``main`` takes.

    ``decisions`` are one object for each layer, as free JSON.
    """

    executable: Any
    weights: Mapping[str, np.ndarray]
    target: Any
    decisions: Sequence[Mapping[str, Any]] = ()

    @property
    def host(self) -> Any:
        """The CPU's part of the target."""
        return self.target.host if is_launched(self.target) else self.target


def compiler_for(machine: str) -> str:
    """Return the C++ compiler that assembles and links for an architecture.

    Raises
    ------
    ArtifactError
        There is none.
    """
    native = machine == platform.machine()
    compiler = cc.get_cc() if native else f"{machine}-linux-gnu-g++"
    if compiler is None or shutil.which(compiler) is None:
        raise ArtifactError(
            compiler or "C++ compiler",
            "not found",
            f"a C++ compiler that links libraries for {machine}",
            "install one (for example the package g++) or set CXX"
            if native
            else f"install one (for example the package g++-{machine}-linux-gnu)".replace("_", "-"),
        )
    return str(compiler)


def link(
    program: Program,
    section_of: Mapping[str, np.ndarray],
    signature: str,
    place: Path,
    *,
    ptx: bool = False,
) -> dict[str, Any]:
    """Link a library into ``place``, under the name that its content gives it.

    Parameters
    ----------
    program
        What it runs.
    section_of
        Arrays of its weight section.
    signature
        Of its manifest.
    place
        The directory.
    ptx
        Hold PTX instead of a GPU's machine code.

    Returns
    -------
    fields
        ``library`` (its name), ``code`` (a checksum) and ``record`` (checksum and size).
    """
    machine = cpu.machine(program.host)
    compiler = compiler_for(machine)
    size = sum(array.nbytes for array in section_of.values())  # but for padding
    large = machine == "x86_64" and size >= section.LARGE_BYTES
    workspace = place / "build"
    workspace.mkdir()
    stream = weight_stream(section_of)
    packed = section.WeightSection(stream, workspace, compiler, large=large, machine=machine)
    linked = place / "model.so"
    objects = [*packed.objects, section.signature_object(signature, workspace, compiler)]
    try:
        program.executable.export_library(
            str(linked),
            addons=[str(path) for path in objects],
            workspace_dir=str(workspace),
            cc=compiler,
            options=_OPTIONS,
            **packing(program.target, ptx=ptx),
        )
    except RuntimeError as error:
        reason = str(error).partition("\nCommand line:")[0].strip()[-_REASON_LETTERS:]
        raise ArtifactError(compiler, f"cannot link the library ({reason})") from error
    packed.check(linked)
    shutil.rmtree(workspace)
    name, code, record = named(linked, machine)
    return {"library": name, "code": code, "record": record}


def named(linked: Path, machine: str) -> tuple[str, str, FileRecord]:
    """Give a library the name that its content demands, and return what its manifest says."""
    with files.opened(linked) as descriptor:
        size = files.size_of(descriptor)
        begin, end = elf.SharedObject(descriptor, str(linked), machine).weights()
        code = files.sha256(descriptor, (0, begin), (end, size))
        record = FileRecord(files.sha256(descriptor), size)
    name = library_name(record.sha256)
    linked.rename(linked.with_name(name))
    return name, code, record
