"""The weight section: bytes that the linker puts, page-aligned and read-only, into the library."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime import elf, files
from tvm_sparse_runtime.errors import RuntimeArtifactError
from tvm_sparse_runtime.manifest import WEIGHTS_SYMBOL

LARGE_BYTES = 1 << 30
"""From this size on x86-64 needs a large section."""
_SMALL, _LARGE = zip(elf.WEIGHTS, ("a", "al"), strict=True)
"""Name and flags of the section. Linkers put x86-64's ``.lrodata`` behind everything else, so that
code and data stay within 2 GB of each other, the reach of their addressing."""
_PART_BYTES = 64 << 20
"""Assembler and linker read an object file whole: small ones keep their memory small. A linker puts
sections of one name one after another, in the order of the objects."""


class WeightSection:
    """Object files that together make the weight section.

    Parameters
    ----------
    stream
        The bytes of the section, in pieces.
    workspace
        Directory for the objects.
    compiler
        C or C++ compiler that assembles.
    large
        Make it a large section; for x86-64 and :data:`LARGE_BYTES` or more.
    machine
        The architecture that the library is for; None for this one.

    Attributes
    ----------
    objects
        Paths, in the order in which they must be linked.

    Raises
    ------
    ArtifactError
        If the compiler fails.
    """

    def __init__(
        self,
        stream: Iterable[memoryview],
        workspace: Path,
        compiler: str,
        *,
        large: bool = False,
        machine: str | None = None,
    ) -> None:
        self.objects: list[Path] = []
        self._kind, self._machine = _LARGE if large else _SMALL, machine
        self._workspace, self._compiler = workspace, compiler
        self._digest, self._size = hashlib.sha256(), 0
        begin = _label(WEIGHTS_SYMBOL)
        for part in self._parts(stream):
            self._add(f'.balign {elf.PAGE}\n{begin}.incbin "{part.name}"\n')
            part.unlink()
            begin = ""
        self._add(f"{_label(WEIGHTS_SYMBOL + '_end')}.byte 0\n")

    def check(self, library: Path) -> None:
        """Refuse a linked library whose section is not exactly what went in."""
        with files.opened(library) as descriptor:
            try:
                begin, end = elf.SharedObject(descriptor, str(library), self._machine).weights()
            except RuntimeArtifactError as error:
                found = f"the linker dropped the section {self._kind[0]}"
                raise ArtifactError(str(library), found, "", "set CXX to GCC") from error
            digest = files.sha256(descriptor, (begin, begin + self._size))
        if end - begin < self._size or digest != self._digest.hexdigest():
            raise ArtifactError(
                str(library), f"{self._compiler} changed the weight section", "", "set CXX to GCC"
            )

    def _add(self, body: str) -> None:
        """Make one more object file whose part of the section is ``body``."""
        stem = f"weights{len(self.objects)}"
        self.objects.append(_assemble(self._workspace, self._compiler, stem, self._kind, body))

    def _parts(self, stream: Iterable[memoryview]) -> Iterable[Path]:
        """Write the stream to files of at most ``_PART_BYTES``; all but the last are full."""
        path, room = self._workspace / "weights.bin", _PART_BYTES
        file = path.open("wb")
        try:
            for piece in stream:
                self._digest.update(piece)
                self._size += len(piece)
                rest = piece
                while len(rest) > room:
                    file.write(rest[:room])
                    file.close()
                    yield path
                    file, rest, room = path.open("wb"), rest[room:], _PART_BYTES
                room -= file.write(rest)
        finally:
            file.close()
        yield path


def signature_object(signature: str, workspace: Path, compiler: str) -> Path:
    """Return an object file with the section that binds a library to its manifest.

    Parameters
    ----------
    signature
        :meth:`~tvm_sparse_runtime.manifest.Manifest.signature`.
    workspace, compiler
        See :class:`WeightSection`.
    """
    content = ", ".join(map(str, bytes.fromhex(signature)))
    return _assemble(workspace, compiler, "signature", (elf.SIGNATURE, "a"), f".byte {content}\n")


def _assemble(
    workspace: Path, compiler: str, stem: str, section: tuple[str, str], body: str
) -> Path:
    """Make an object file with ``body`` in a section of the name and flags ``section``."""
    source = workspace / f"{stem}.S"
    source.write_text(
        f'.section {section[0]},"{section[1]}",%progbits\n'
        f'{body}.section .note.GNU-stack,"",%progbits\n',
        encoding="utf-8",
    )
    target = source.with_suffix(".o")
    command = [compiler, "-c", source.name, "-o", target.name]
    done = subprocess.run(command, cwd=workspace, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArtifactError(
            compiler,
            f"cannot assemble the weights ({done.stderr.strip()})",
            "a C++ compiler that links libraries",
            "install g++ or set CXX",
        )
    return target


def _label(symbol: str) -> str:
    return f".globl {symbol}\n.type {symbol},%object\n{symbol}:\n"
