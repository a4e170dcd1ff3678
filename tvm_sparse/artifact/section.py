"""The weight section: bytes that the linker puts, page-aligned and read-only, into the library."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime.manifest import WEIGHTS_SYMBOL

LARGE_BYTES = 1 << 30
"""From this size on x86-64 needs a large section."""
_SMALL = (".tvm_sparse.weights", "a")
_LARGE = (".lrodata", "al")
"""Name and flags of the section. Linkers put x86-64's ``.lrodata`` behind everything else, so that
code and data stay within 2 GB of each other, the reach of their addressing."""
_PAGE = 4096
_CHUNK_BYTES = 1 << 20
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
        self, stream: Iterable[memoryview], workspace: Path, compiler: str, *, large: bool = False
    ) -> None:
        self.objects: list[Path] = []
        self._name, self._flags = _LARGE if large else _SMALL
        self._workspace, self._compiler = workspace, compiler
        self._digest, self._size = hashlib.sha256(), 0
        begin = _label(WEIGHTS_SYMBOL)
        for part in self._parts(stream):
            self._assemble(f'.balign {_PAGE}\n{begin}.incbin "{part.name}"\n')
            part.unlink()
            begin = ""
        self._assemble(f"{_label(WEIGHTS_SYMBOL + '_end')}.byte 0\n")

    def check(self, library: Path) -> None:
        """Refuse a linked library whose section is not exactly what went in."""
        with library.open("rb") as file:
            begin, end = _find_section(file, self._name, library)
            file.seek(begin)
            digest, left = hashlib.sha256(), self._size
            while chunk := file.read(min(left, _CHUNK_BYTES)):
                digest.update(chunk)
                left -= len(chunk)
        if end - begin <= self._size or digest.digest() != self._digest.digest():
            raise ArtifactError(
                str(library), f"{self._compiler} changed the weight section", "", "set CXX to GCC"
            )

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

    def _assemble(self, body: str) -> None:
        """Make one more object file whose part of the section is ``body``."""
        source = self._workspace / f"weights{len(self.objects)}.S"
        source.write_text(
            f'.section {self._name},"{self._flags}",%progbits\n{body}'
            '.section .note.GNU-stack,"",%progbits\n',
            encoding="utf-8",
        )
        target = source.with_suffix(".o")
        command = [self._compiler, "-c", source.name, "-o", target.name]
        done = subprocess.run(
            command, cwd=self._workspace, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ArtifactError(
                self._compiler,
                f"cannot assemble the weights ({done.stderr.strip()})",
                "a C++ compiler that links libraries",
                "install g++ or set CXX",
            )
        self.objects.append(target)


def _label(symbol: str) -> str:
    return f".globl {symbol}\n.type {symbol},%object\n{symbol}:\n"


def _find_section(file: BinaryIO, wanted: str, where: Path) -> tuple[int, int]:
    """Return where, in a 64-bit little-endian ELF file, the section's pages begin and end.

    A linker may begin ``.lrodata`` before the page-aligned objects in it.
    """
    header = file.read(64)
    table = struct.unpack_from("<Q", header, 0x28)[0]
    entry_bytes, count, names_index = struct.unpack_from("<HHH", header, 0x3A)
    entries = []
    for index in range(count):
        file.seek(table + index * entry_bytes)
        name, _, _, address, offset, size = struct.unpack("<IIQQQQ", file.read(40))
        entries.append((name, offset, size, address))
    file.seek(entries[names_index][1])
    names = file.read(entries[names_index][2])
    for name, offset, size, address in entries:
        if names[name : names.index(b"\0", name)].decode() == wanted:
            return offset + -address % _PAGE, offset + size
    raise ArtifactError(str(where), f"the linker dropped the section {wanted}")
