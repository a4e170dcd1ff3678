"""A function of one byte as a table of 256: looked up in registers where the machine can."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.record import Machine
from tvm_sparse.numerics import vector_type
from tvm_sparse.ops.axis import flat_view
from tvm_sparse.ops.emit import filled, lanes_from

ENTRIES = 256
BYTE = "uint8"

PARALLEL_BYTES = 1 << 15
"""Smallest tensor that is worth several threads."""

LANES = 64
"""Bytes that are looked up side by side."""


def byte_table(x: te.Tensor, table: te.Tensor, machine: Machine, dtype: str) -> te.Tensor:
    """Return the entry of ``table`` for each of the bytes ``x``.

    Parameters
    ----------
    x
        Signed or unsigned, of static extents, at least :data:`LANES` of them.
    table
        256 unsigned bytes, by the bits of those of ``x``.
    machine
        What has the registers.
    dtype
        Type of the result, whose bits the table has.
    """
    count, banks = math.prod(map(int, x.shape)), machine.banks(BYTE)
    lanes = LANES if banks else 1
    loop = T.parallel if count >= PARALLEL_BYTES else T.serial

    def emit(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder, loop(0, tirx.const(-(-count // lanes), "int64")) as n:
            source, result = flat_view(inputs[0], count), flat_view(outputs[0], count)
            entries = T.buffer_proxy(inputs[1])
            # The last vector begins earlier, so that it is whole.
            first = tirx.min(n * lanes, tirx.const(count - lanes, "int64"))
            at = lanes_from(first, lanes) if banks else n
            index = tirx.reinterpret(vector_type(BYTE, lanes), source[(at,)])
            if banks:
                found = _looked_up(entries, index, machine)
            else:
                found = entries[(tirx.Cast("int32", index),)]
            result[(at,)] = tirx.reinterpret(vector_type(dtype, lanes), found)
        return builder.get()

    return te.extern([x.shape], [x, table], emit, name="byte_table", dtype=dtype)


def _looked_up(entries: Any, index: Any, machine: Machine) -> Any:
    """Return the entries at ``index``, part after part of the table."""
    bank = max(machine.banks(BYTE))
    lookup = machine.lookup(BYTE, bank)
    found = lookup(entries, (), ENTRIES - bank, index)
    for end in range(ENTRIES - bank, 0, -bank):
        low = index < filled(end, BYTE, LANES)
        found = tirx.Select(low, lookup(entries, (), end - bank, index), found)
    return found
