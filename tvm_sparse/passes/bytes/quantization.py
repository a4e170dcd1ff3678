"""Quantization in a graph: what it looks like, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS, HALVES, INTEGER_SUMS, bits_of
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name

BYTES = ("uint8", "int8")
"""The types of quantized activations."""


@dataclass(frozen=True)
class Meaning:
    """A tensor of ``bytes`` and what they mean."""

    bytes: Any
    scale: Scale


def meaning_of(rewriter: Rewriter, expr: Any) -> Meaning | None:
    """Return the bytes whose meaning ``expr`` is, if it is ``dequantize`` of a tensor."""
    call = rewriter.resolve(expr)
    if op_name(call) != "dequantize":
        return None
    size, zero = (number(rewriter, argument) for argument in call.args[1:])
    if size is None or zero is None:
        return None
    return Meaning(call.args[0], Scale(str(call.args[0].ty.dtype), size, int(zero)))


def behind_casts(rewriter: Rewriter, expr: Any) -> tuple[Any, str]:
    """Return what casts to and from halves made ``expr`` of, and the narrowest type on the way."""
    dtype = str(expr.ty.dtype)
    while is_cast(call := rewriter.resolve(expr)):
        expr = call.args[0]
        dtype = min(dtype, str(expr.ty.dtype), key=bits_of)
    return expr, dtype


def is_cast(call: Any) -> bool:
    """Whether ``call`` casts between single and half precision."""
    types = {*HALVES, FLOAT_SUMS}
    return op_name(call) == "astype" and {str(e.ty.dtype) for e in (call, call.args[0])} <= types


def cast(rewriter: Rewriter, expr: Any, dtype: str) -> Any:
    """Return ``expr``, single precision, in ``dtype``."""
    return expr if dtype == FLOAT_SUMS else relax.op.astype(rewriter.emit(expr), dtype)


def scale_of(rewriter: Rewriter, call: relax.Call) -> Scale | None:
    """Return what the bytes mean that ``call``, a ``quantize`` of steps, writes.

    Its operand counts steps: a tensor divided by the size of one, or times its inverse.
    """
    steps, zero = rewriter.resolve(call.args[0]), number(rewriter, call.args[2])
    factor = number(rewriter, steps.args[1]) if op_name(steps) in ("multiply", "divide") else None
    if factor is None or zero is None or factor <= 0:
        return None
    size = factor if op_name(steps) == "divide" else inverse(factor)
    return Scale(str(call.ty.dtype), size, int(zero))


def zero_of(call: relax.Call) -> int | None:
    """Return the zero point of ``call``, a ``quantize`` of steps: its own scale is one."""
    size, zero = (array_of(argument).reshape(-1) for argument in call.args[1:])
    plain = len(size) == len(zero) == 1 and size[0] == 1
    return int(zero[0]) if plain else None


def is_whole(call: Any) -> bool:
    """Whether ``call`` makes floats of the sums of integers."""
    return op_name(call) == "astype" and str(call.args[0].ty.dtype) == INTEGER_SUMS


def inverse(factor: float) -> float:
    """Return the inverse in single precision."""
    single = np.dtype(FLOAT_SUMS).type
    return float(single(1) / single(factor))


def number(rewriter: Rewriter, expr: Any) -> float | None:
    """Return the only element of a constant."""
    found = rewriter.constant(expr)
    return (
        None if found is None or found.value.numel() != 1 else float(array_of(found).reshape(-1)[0])
    )


def with_number(rewriter: Rewriter, expr: Any, operator: str) -> tuple[Any, float] | None:
    """Return the operands of ``operator`` if ``expr`` is one of a tensor and a number."""
    call = rewriter.resolve(expr)
    if op_name(call) != operator:
        return None
    found = number(rewriter, call.args[1])
    return None if found is None else (call.args[0], found)


def quantize(steps: Any, zero: int, dtype: str) -> relax.Call:
    """Return ``steps`` above the zero point as bytes: rounded half to even, saturated."""
    return relax.op.quantize(
        steps, relax.const(1.0, FLOAT_SUMS), relax.const(zero, dtype), out_dtype=dtype
    )


def dequantize(values: Any, scale: Scale) -> relax.Call:
    """Return what bytes mean."""
    size, zero = relax.const(scale.scale, FLOAT_SUMS), relax.const(scale.zero_point, scale.dtype)
    return relax.op.dequantize(values, size, zero, out_dtype=FLOAT_SUMS)
