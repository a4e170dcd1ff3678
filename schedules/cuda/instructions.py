"""Which machine instructions a kernel is made of: those by which a GPU kernel is judged."""

from __future__ import annotations

from collections import Counter

from tvm_sparse.schedules.cuda.resources import TEXT, sections

INSTRUCTION_BYTES = 16
OPCODES = {
    0x23C: "HMMA",
    0x237: "IMMA",
    0x9F0: "HGMMA",
    0x83B: "LDSM",
    0xFAE: "LDGSTS",
    0x381: "LDG",
    0x981: "LDG",
    0x386: "STG",
    0x986: "STG",
    0x984: "LDS",
    0x388: "STS",
    0x988: "STS",
    0x983: "LDL",
    0x387: "STL",
    0x223: "FFMA",
    0x423: "FFMA",
    0x623: "FFMA",
    0x823: "FFMA",
    0xA23: "FFMA",
    0xC23: "FFMA",
}
"""The lowest 12 bits of an instruction of ``sm_80`` to ``sm_90``, as NVIDIA's disassembler reads
them. Products on tensor cores of a warp (of floats, of bytes) and of a warpgroup; fragment load,
asynchronous copy; global, shared and local memory; fp32 multiply-add (with registers, a constant,
constant memory or a uniform register)."""

SPARSE = {"HMMA": 14, "HGMMA": 9}
"""The bit, counted from 64, that says that a product's left operand is 2:4."""

WIDTHS = {4: ".32", 5: ".64", 6: ".128"}
"""Bits 73 to 75 of a memory access."""


def instruction_counts(cubin: bytes) -> dict[str, Counter[str]]:
    """Return how often each kernel of ``cubin`` holds the known instructions.

    Memory accesses of 4, 8 and 16 bytes are called ``LDG.32``, ``LDG.64``, ``LDG.128``.
    """
    counts = {}
    for part in sections(cubin):
        if part.name.startswith(TEXT):
            code = cubin[part.offset : part.offset + part.size]
            names = (_name(code[i:]) for i in range(0, len(code), INSTRUCTION_BYTES))
            counts[part.name.removeprefix(TEXT)] = Counter(name for name in names if name)
    return counts


def _name(code: bytes) -> str:
    """Return the name of the instruction that ``code`` begins with; unknown ones have none."""
    low, high = int.from_bytes(code[:8], "little"), int.from_bytes(code[8:16], "little")
    name = OPCODES.get(low & 0xFFF, "")
    if name in SPARSE and high >> SPARSE[name] & 1:
        return f"{name}.SP"
    accesses = name[:2] in ("LD", "ST") and name != "LDSM"
    return name + (WIDTHS.get(high >> 9 & 7, "") if accesses else "")
