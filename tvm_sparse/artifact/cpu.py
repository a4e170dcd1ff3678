"""Which instruction sets a compiled library needs, in the words of ``/proc/cpuinfo``."""

from __future__ import annotations

from typing import Any

from tvm.target import codegen

X86_FLAGS = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "sse4a": "sse4a",
    "popcnt": "popcnt",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "movbe": "movbe",
    "f16c": "f16c",
    "fma": "fma",
    "fma4": "fma4",
    "xop": "xop",
    "avx": "avx",
    "avx2": "avx2",
    "avxvnni": "avx_vnni",
    "avxifma": "avx_ifma",
    "gfni": "gfni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}
"""LLVM's name -> the kernel's, for what numerical code may use. LLVM's other features are tuning
hints, or belong to operating systems and cryptography."""

ARM_FLAGS = {
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "rdm": "asimdrdm",
    "dotprod": "asimddp",
    "complxnum": "fcma",
    "fp16fml": "asimdfhm",
    "lse": "atomics",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
}
"""The same for 64-bit Arm."""

_FLAGS = {"x86_64": X86_FLAGS, "aarch64": ARM_FLAGS}


def machine(target: Any) -> str:
    """Return the architecture of a TVM target as ``platform.machine()`` names it."""
    triple = str(target.attrs.get("mtriple") or codegen.llvm_get_system_triple())
    name = triple.split("-", maxsplit=1)[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def required_cpu_features(target: Any) -> list[str]:
    """Return what a CPU must have to run code for ``target``.

    Parameters
    ----------
    target
        A ``tvm.target.Target`` of kind ``llvm``; ``mcpu`` and ``mattr`` count.

    Returns
    -------
    flags
        Sorted, spelt as in ``/proc/cpuinfo``.
    """
    flags = _FLAGS.get(machine(target), {})
    available = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    return sorted(flag for name, flag in flags.items() if name in available)
