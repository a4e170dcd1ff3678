"""PTX of a few lines, run on arrays with an element a thread."""

from __future__ import annotations

import importlib.util
from fractions import Fraction

import numpy as np
import pytest

from tvm_sparse_emulator.executor import execute
from tvm_sparse_emulator.report import EmulationReport

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None,
    reason="no NVRTC (pip install 'tvm-sparse-emulator[nvrtc]')",
)
WIDTHS = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k({params})
{{
  .reg .pred %p<9>; .reg .b16 %h<40>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<40>;
  .reg .f64 %w<9>;
  {shared}
  mov.u32 %r0, %tid.x;
"""


def kernel(body: str, params: int, shared: str = "") -> str:
    """Return a module with a kernel ``k`` of pointers; ``%r0`` is the thread, ``%dN`` pointer N."""
    names = ", ".join(f".param .u64 a{i}" for i in range(params))
    loads = "".join(f"  ld.param.u64 %d{i}, [a{i}];\n" for i in range(params))
    return HEAD.format(params=names, shared=shared) + loads + body + "\n  ret;\n}\n"


def run(
    body: str, arrays: list[np.ndarray], threads: int = 32, shared: str = "", dynamic: int = 0
) -> EmulationReport:
    """Run a kernel of one block; ``arrays`` are written in place."""
    text = kernel(body, len(arrays), shared)
    return execute(text, "k", (1, 1, 1), (threads, 1, 1), arrays, shared=dynamic)


def register(dtype: np.dtype) -> str:
    """Return the class of registers for elements of ``dtype``."""
    if dtype.itemsize == 4:
        return "%f" if dtype.kind == "f" else "%r"
    return {1: "%h", 2: "%h", 8: "%d"}[dtype.itemsize]


def element(dtype: np.dtype) -> str:
    """Return how PTX loads elements of ``dtype``."""
    if dtype.itemsize == 1:
        return f"{dtype.kind.replace('i', 's')}8"
    return "f32" if dtype.kind == "f" and dtype.itemsize == 4 else f"b{8 * dtype.itemsize}"


def apply(instruction: str, inputs: list[np.ndarray], output: np.dtype) -> np.ndarray:
    """Return what ``instruction d, a, b, ...`` gives for each element; 32 at a time.

    ``{d}``, ``{a}``, ``{b}``, ``{c}`` may stand in ``instruction`` for other orders.
    """
    names = {"d": f"{register(output)}30"}
    lines = []
    for i, array in enumerate(inputs):
        names["abc"[i]] = name = f"{register(array.dtype)}{20 + i}"
        lines.append(f"mad.wide.u32 %d10, %r0, {array.dtype.itemsize}, %d{i};")
        lines.append(f"ld.global.{element(array.dtype)} {name}, [%d10];")
    if "{" not in instruction:
        instruction += " " + ", ".join(f"{{{n}}}" for n in "dabc"[: len(inputs) + 1])
    lines.append(instruction.format(**names) + ";")
    lines.append(f"mad.wide.u32 %d10, %r0, {output.itemsize}, %d{len(inputs)};")
    lines.append(f"st.global.{element(output)} [%d10], {names['d']};")
    size = len(inputs[0])
    result = np.zeros(size, output)
    report = run("\n".join(lines), [*inputs, result], threads=size)
    assert not report.findings
    return result


FORMATS = {"f32": (24, -126, np.float32), "f16": (11, -14, np.float16), "bf16": (8, -126, None)}


def rounded(value: Fraction, kind: str, mode: str = "rn") -> Fraction:
    """Return ``value`` rounded to a format; no overflow here."""
    digits, least, _ = FORMATS[kind]
    if value == 0:
        return value
    exponent = least
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - digits + 1)
    units = value / unit
    below = units.numerator // units.denominator
    if mode == "rn":
        return unit * round(units)  # Python rounds halves to even
    up = {"rp": True, "rm": False, "rz": value < 0}[mode]
    return unit * (below + (up and below != units))
