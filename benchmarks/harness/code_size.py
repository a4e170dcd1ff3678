"""How many bytes of machine code a built module has."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

EXECUTABLE = 0x4
"""The flag of sections that hold instructions (ELF specification, figure 4-11)."""


def code_bytes(module: Any) -> int:
    """Return the bytes of all sections of instructions of ``module``, compiled for ELF.

    Wrappers that check arguments count too.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.o"
        module.write_to_file(str(path), "o")
        return executable_bytes(path.read_bytes())


def executable_bytes(elf: bytes) -> int:
    """Return the bytes of instructions of a 64-bit little-endian ELF object."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF object")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    # A section header begins with name, type (32 bits each), flags, address, offset, size (64).
    headers = (struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count))
    return sum(header[5] for header in headers if header[2] & EXECUTABLE)
