"""Shared libraries that need no compiler: all that is checked of one, and no code."""

from __future__ import annotations

import platform
import struct

from tvm_sparse_runtime.elf import PAGE, SIGNATURE, WEIGHTS

MACHINE = {"x86_64": 62, "aarch64": 183}[platform.machine()]


def library(signature: str, weights: bytes) -> bytes:
    """Return a library with ``signature`` (hexadecimal), ``weights`` and one more byte."""
    names = [b"", SIGNATURE.encode(), WEIGHTS[0].encode(), b".shstrtab"]
    table = b"".join(name + b"\0" for name in names)
    contents = [b"", bytes.fromhex(signature), weights + b"\0", table]
    offsets = [0, 64 + 56, PAGE, PAGE + len(contents[2])]
    end = offsets[3] + len(table)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(b"\x7fELF\x02\x01\x01", 3, MACHINE, 1, 0, 64, end, 0, 64, 56, 1, 64, 4, 3),
    )
    program = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, end, end, PAGE)
    sections = [
        struct.pack("<IIQQQQIIQQ", table.index(name + b"\0"), 1, 2, at, at, len(data), 0, 0, 1, 0)
        for name, at, data in zip(names, offsets, contents, strict=True)
    ]
    start = (header + program + contents[1]).ljust(PAGE, b"\0")
    return start + contents[2] + table + b"".join(sections)
