"""Block-sparse linear layer and convolution: lanes of output rows share a block's columns."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.machine.record import LANES
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import store_lanes, stored_dtype, unravel, whole, widen
from tvm_sparse.ops.marks import KIND, OUT_FUSABLE, ROWS, int64, row_axis


def block(
    contraction: Contraction, storage: CompressedRowsFormat, stored: str = ""
) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``.

    ``Y[..., r*R + i] = sum_ek values[e, k, i] * X[..., columns[e] + k]`` over the entries ``e`` of
    block row ``r``, whose ``R`` rows are whole vectors: a step multiplies a vector of one column of
    a block by one activation. Storage: row tiles of one group, one column tile; no run
    crosses a tap. Values may be ``stored`` in half precision. (Block compressed sparse rows, as
    in cuSPARSE's and MKL's BSR.)
    """
    c, s = contraction, storage
    members = s.group // LANES
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        values = T.arg(
            "V", T.Buffer(int64((s.entries, s.run, s.group)), stored_dtype(stored, c.dtype))
        )
        columns = T.arg("C", T.Buffer(int64((s.entries,)), str(s.column_dtype)))
        starts = T.arg("S", T.Buffer(int64((s.slots + 1,)), "int32"))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.dtype))
        with T.sblock("root"):
            acc = T.sblock_alloc_buffer(int64((*c.lead, s.slots * members, LANES)), c.dtype)
            _contract(c, s, stored, (x, values, columns, starts, acc))
            store_lanes(c, LANES, acc, y)
    return builder.get()


def _contract(
    c: Contraction, s: CompressedRowsFormat, stored: str, buffers: tuple[Any, ...]
) -> None:
    """Emit the block that accumulates one column of one block.

    Every block row walks as many entries as the longest one; a condition skips those it lacks.
    """
    x, values, columns, starts, acc = buffers
    members = s.group // LANES
    grid = int64((*c.lead, s.slots, members, s.longest, s.run))
    lanes = tirx.Ramp(0, 1, LANES)
    with T.grid(*grid) as axes, T.sblock("contract"):
        *lead, slot, member, step, k = T.axis.remap("S" * (len(c.lead) + 2) + "RR", axes)
        entry = tirx.Cast("int64", starts[slot]) + step
        here = (*lead, slot * members + member)
        rows = tirx.Ramp(member * LANES, 1, LANES)
        T.reads(
            whole(x),
            values[entry, k, member * LANES : member * LANES + LANES],
            columns[entry],
            starts[slot : slot + 2],
        )
        T.writes(acc[(*here, slice(0, LANES))])
        T.sblock_attr({KIND: "block", ROWS: row_axis(c.lead)})
        with T.init():
            T.buffer_store(acc, tirx.Broadcast(tirx.const(0, c.dtype), LANES), [*here, lanes])
        with T.If(step < tirx.Cast("int64", starts[slot + 1] - starts[slot])), T.Then():
            column = tirx.Cast("int64", columns[entry])
            taps = unravel(column // c.columns, c.taps)
            within = column % c.columns if c.taps else column
            pixel = x[(*c.input_index(lead, taps), within + k)]
            weight = widen(values[entry, k, rows], stored, LANES)
            product = weight * tirx.Broadcast(pixel, LANES)
            T.buffer_store(acc, acc[(*here, lanes)] + product, [*here, lanes])
