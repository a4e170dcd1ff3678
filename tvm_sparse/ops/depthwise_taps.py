"""Depthwise convolution with pruned taps: lanes of channels share what any of them keeps."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import store_lanes, unravel, whole
from tvm_sparse.ops.marks import KIND, OUT_FUSABLE, ROWS, int64, row_axis


def depthwise_taps(contraction: Contraction, storage: CompressedRowsFormat) -> tirx.PrimFunc:
    """Return ``f(X, values, columns, starts, Y)``.

    ``Y[b, y, x, g*L + i] = sum_e values[e, 0, i] * X[b, y*s + ty, x*s + tx, g*L + i]`` over the
    entries ``e`` of channel group ``g``, with ``L`` lanes and ``(ty, tx)`` the tap
    ``columns[e]``. Storage: rows are channels, columns are taps; a row tile is one group of lanes
    and divides the channels. (Pruned taps: Park et al., DEPrune, NeurIPS 2024.)
    """
    c, s = contraction, storage
    lanes = s.group
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        values = T.arg("V", T.Buffer(int64((s.entries, 1, lanes)), c.dtype))
        taps = T.arg("T", T.Buffer(int64((s.entries,)), str(s.column_dtype)))
        starts = T.arg("S", T.Buffer(int64((s.slots + 1,)), "int32"))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.dtype))
        with T.sblock("root"):
            acc = T.sblock_alloc_buffer(int64((*c.lead, s.slots, lanes)), c.dtype)
            _contract(c, s, (x, values, taps, starts, acc))
            store_lanes(c, lanes, acc, y)
    return builder.get()


def _contract(c: Contraction, s: CompressedRowsFormat, buffers: tuple[Any, ...]) -> None:
    """Emit the block that accumulates one tap of one group of channels.

    Its axes are those of a block of one lane vector and one column (see ``ops/block.py``), so that
    one schedule serves both. Every group walks as many entries as the longest one; a condition
    skips those it lacks.
    """
    x, values, taps, starts, acc = buffers
    lanes = tirx.Ramp(0, 1, s.group)
    grid = int64((*c.lead, s.slots, 1, s.longest, 1))
    with T.grid(*grid) as axes, T.sblock("contract"):
        *lead, group, _, step, _ = T.axis.remap("S" * (len(c.lead) + 2) + "RR", axes)
        entry = tirx.Cast("int64", starts[group]) + step
        T.reads(whole(x), values[entry, 0, 0 : s.group], taps[entry], starts[group : group + 2])
        T.writes(acc[(*lead, group, slice(0, s.group))])
        T.sblock_attr({KIND: "depthwise_taps", ROWS: row_axis(c.lead)})
        with T.init():
            zero = tirx.Broadcast(tirx.const(0, c.dtype), s.group)
            T.buffer_store(acc, zero, [*lead, group, lanes])
        with T.If(step < tirx.Cast("int64", starts[group + 1] - starts[group])), T.Then():
            tap = unravel(tirx.Cast("int64", taps[entry]), c.taps)
            channels = tirx.Ramp(group * s.group, 1, s.group)
            pixels = x[(*c.input_index(lead, tap), channels)]
            total = acc[(*lead, group, lanes)] + values[entry, 0, lanes] * pixels
            T.buffer_store(acc, total, [*lead, group, lanes])
