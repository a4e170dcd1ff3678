"""What each kernel of a cubin uses: registers, stack (spills and local arrays), shared memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tvm_sparse.errors import InputError

_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
"""Attributes of ``.nv.info``; each holds pairs of a symbol's index and a number."""

TEXT = ".text."
"""What the section of a kernel's instructions is called, before the kernel's name."""

_SIZED = 4
"""The attribute format whose 16-bit value is the length of what follows."""


@dataclass(frozen=True)
class KernelResources:
    """Resources of one kernel: registers a thread, stack bytes a thread, static shared bytes."""

    registers: int
    stack: int
    shared: int


@dataclass(frozen=True)
class Section:
    """A part of an ELF file."""

    name: str
    offset: int
    size: int


def kernel_resources(cubin: bytes) -> dict[str, KernelResources]:
    """Return the resources of each kernel in ``cubin`` by its name.

    ``stack`` is zero exactly when the compiler neither spilt registers nor kept an array in local
    memory.

    Raises
    ------
    InputError
        If the bytes are no 64-bit ELF file.
    """
    parts = {s.name: s for s in sections(cubin)}
    symbols = _symbols(cubin, parts)
    registers = _attribute(cubin, parts[".nv.info"], _REGCOUNT)
    frames = _attribute(cubin, parts[".nv.info"], _FRAME_SIZE)
    result = {}
    for name in (n.removeprefix(TEXT) for n in parts if n.startswith(TEXT)):
        symbol = symbols.index(name)
        shared = parts.get(f".nv.shared.{name}")
        result[name] = KernelResources(
            registers[symbol], frames.get(symbol, 0), shared.size if shared else 0
        )
    return result


def _string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def sections(data: bytes) -> list[Section]:
    """Return the sections of a cubin; refuse what is no 64-bit ELF file."""
    if data[:5] != b"\x7fELF\x02":
        raise InputError("cubin", f"begins with {data[:5]!r}", "a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<HHH", data, 0x3A)
    raw = [struct.unpack_from("<IIQQQQ", data, table + i * entry) for i in range(count)]
    strings = raw[names][4]
    return [Section(_string(data, strings + name), at, size) for name, _, _, _, at, size in raw]


def _symbols(data: bytes, sections: dict[str, Section]) -> list[str]:
    """Return the names of all symbols, by index."""
    table, strings = sections[".symtab"], sections[".strtab"]
    entries = range(table.offset, table.offset + table.size, 24)
    return [_string(data, strings.offset + struct.unpack_from("<I", data, e)[0]) for e in entries]


def _attribute(data: bytes, section: Section, wanted: int) -> dict[int, int]:
    """Return symbol index -> value for the attribute ``wanted``."""
    at, end, found = section.offset, section.offset + section.size, {}
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _SIZED:
            continue
        if attribute == wanted:
            symbol, value = struct.unpack_from("<II", data, at)
            found[symbol] = value
        at += length
    return found
