"""The little of an ELF file that is checked before the dynamic loader sees it."""

from __future__ import annotations

import os
import platform
import struct
from dataclasses import dataclass

from .errors import RuntimeArtifactError
from .fields import DAMAGED

PAGE = 4096
SIGNATURE = ".tvm_sparse.signature"
WEIGHTS = (".tvm_sparse.weights", ".lrodata")
"""Names that the weight section may have; see ``tvm_sparse.artifact.section``."""

_MACHINES = {"x86_64": 62, "aarch64": 183}
_HEADER, _PROGRAM, _SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), "<IIQQQQQQ", "<IIQQQQIIQQ"
_SHARED_OBJECT, _LOAD, _NOBITS = 3, 1, 8


@dataclass(frozen=True)
class Section:
    """Address in memory, place in the file and size, in bytes."""

    address: int
    offset: int
    size: int


class SharedObject:
    """A shared library's table of sections, all of which lie inside the file.

    Parameters
    ----------
    descriptor
        The open file.
    where
        Its name in errors.
    machine
        Its architecture, as :func:`platform.machine` names it; None for this one.

    Raises
    ------
    RuntimeArtifactError
        The file is no library for this machine, or a part of it would lie outside.
    """

    def __init__(self, descriptor: int, where: str, machine: str | None = None) -> None:
        self._descriptor, self._where = descriptor, where
        self._size = os.fstat(descriptor).st_size
        header = _HEADER.unpack(self._read(0, _HEADER.size))
        magic, kind, found = header[:3]
        if magic[:6] != b"\x7fELF\x02\x01" or kind != _SHARED_OBJECT:
            raise self._wrong("no shared library of 64 bits")
        if found != _MACHINES.get(machine or platform.machine(), found):
            raise self._wrong(f"a library for machine {found} of ELF")
        programs = self._table(header[5], header[9], header[10], _PROGRAM)
        for type_, _, offset, _, _, in_file, in_memory, _ in programs:
            if type_ == _LOAD and in_file > in_memory:
                raise self._wrong("a segment that is larger than its memory")
            self._check_range(offset, in_file)
        sections = self._table(header[6], header[11], header[12], _SECTION)
        if not programs or header[13] >= len(sections):
            raise self._wrong("no segments or no names of sections")
        for _, type_, _, _, offset, size, *_ in sections:
            if type_ != _NOBITS:
                self._check_range(offset, size)
        names = self._read(*sections[header[13]][4:6])
        self.sections = {
            names[name:].partition(b"\0")[0].decode("latin-1"): Section(address, offset, size)
            for name, _, _, address, offset, size, *_ in sections
        }

    def signature(self) -> str:
        """Return what binds the library to its manifest, in hexadecimal; empty if there is none."""
        section = self.sections.get(SIGNATURE)
        return self._read(section.offset, section.size).hex() if section else ""

    def weights(self) -> tuple[int, int]:
        """Return where in the file the weights begin and end.

        A linker may begin ``.lrodata`` before the page-aligned objects in it. One byte follows the
        last weight.
        """
        for name in WEIGHTS:
            if section := self.sections.get(name):
                begin = section.offset + -section.address % PAGE
                return begin, max(begin, section.offset + section.size - 1)
        raise self._wrong("no weight section")

    def _table(self, offset: int, entry: int, count: int, form: str) -> list[tuple[int, ...]]:
        if entry != struct.calcsize(form):
            raise self._wrong("entries of an unknown size in its tables")
        return list(struct.iter_unpack(form, self._read(offset, entry * count)))

    def _check_range(self, offset: int, size: int) -> None:
        if offset + size > self._size:
            raise self._wrong(f"a part that ends at byte {offset + size} of {self._size}")

    def _read(self, offset: int, size: int) -> bytes:
        self._check_range(offset, size)
        return os.pread(self._descriptor, size, offset)

    def _wrong(self, found: str) -> RuntimeArtifactError:
        return RuntimeArtifactError(self._where, found, "a library of ours", DAMAGED)
