"""A function of one byte as a table of 256: looked up in registers where the machine can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import ir, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import vector_type
from tvm_sparse.machine.lookup import ENTRIES
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import VECTOR_BYTES
from tvm_sparse.ops.emit import lanes_from
from tvm_sparse.ops.tensors.axis import flat_view

BYTE = "uint8"

_REINTERPRET = ir.Op.get("tirx.reinterpret")

PARALLEL_BYTES = 1 << 15
"""Smallest tensor that is worth several threads."""


def byte_table(x: te.Tensor, table: te.Tensor, machine: Machine, dtype: str) -> te.Tensor:
    """Return the entry of ``table`` for each of the bytes ``x``.

    Parameters
    ----------
    x
        Signed or unsigned, of static extents, at least :data:`VECTOR_BYTES` of them.
    table
        256 unsigned bytes, by the bits of those of ``x``.
    machine
        What has the registers.
    dtype
        Type of the result, whose bits the table has.
    """
    count, look_up = math.prod(map(int, x.shape)), machine.table
    lanes = VECTOR_BYTES if look_up else 1
    loop = T.parallel if count >= PARALLEL_BYTES else T.serial

    def emit(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder, loop(0, tirx.const(-(-count // lanes), "int64")) as n:
            source, result = flat_view(inputs[0], count), flat_view(outputs[0], count)
            entries = T.buffer_proxy(inputs[1])
            # The last vector begins earlier, so that it is whole.
            first = tirx.min(n * lanes, tirx.const(count - lanes, "int64"))
            at = lanes_from(first, lanes) if look_up else n
            index = tirx.reinterpret(vector_type(BYTE, lanes), source[(at,)])
            if look_up:
                found = look_up(entries, index)
            else:
                found = entries[(tirx.Cast("int32", index),)]
            result[(at,)] = tirx.reinterpret(vector_type(dtype, lanes), found)
        return builder.get()

    return te.extern([x.shape], [x, table], emit, name="byte_table", dtype=dtype)


def looked_up(x: te.Tensor, table: te.Tensor, dtype: str) -> te.Tensor:
    """Return what :func:`byte_table` does, element by element: for what is fused behind a layer."""

    def entry(*index: Any) -> Any:
        byte = _as(BYTE, x(*index))
        return _as(dtype, table(tirx.Cast("int64", byte)))

    return te.compute(x.shape, entry, "looked_up")


@dataclass(frozen=True)
class Looked:
    """What :func:`looked_up` made an entry of: a ``byte`` of any type, and all the entries."""

    byte: Any
    entries: Any

    @staticmethod
    def of(value: Any) -> Looked | None:
        """Return what ``value`` is made of; ``None`` if it is something else."""
        load = _bits(value)
        if not isinstance(load, ir.TensorLoad) or len(load.indices) != 1:
            return None
        (index,) = load.indices
        if str(load.source.ty.dtype) != BYTE or not isinstance(index, tirx.Cast):
            return None
        byte, (entries,) = _bits(index.value), load.source.shape
        whole = isinstance(entries, tirx.IntImm) and int(entries) == ENTRIES
        return Looked(byte, load.source) if whole and byte.ty.dtype.bits == 8 else None


def _as(dtype: str, byte: Any) -> Any:
    """Return the bits of ``byte`` as ``dtype``."""
    return byte if str(byte.ty.dtype) == dtype else tirx.reinterpret(dtype, byte)


def _bits(value: Any) -> Any:
    """Return what the bits of ``value`` are those of."""
    again = isinstance(value, ir.Call) and value.op.same_as(_REINTERPRET)
    return value.args[0] if again else value
