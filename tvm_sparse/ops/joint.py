"""Joint-sparse linear layer and convolution: only what banks hold, and a lookup for each value."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import store_lanes, stored_dtype, unravel, whole, widen
from tvm_sparse.ops.marks import KIND, OUT_FUSABLE, ROWS, int64, row_axis


def joint(
    contraction: Contraction, storage: CompressedBanksFormat, target: Target, stored: str = ""
) -> tirx.PrimFunc:
    """Return ``f(X, values, indices, columns, starts, Y)``.

    ``Y[..., r*L + i] = sum_ek values[e, k, i] * X[..., columns[e] + index(e, k, i)]`` over the
    entries ``e`` of lane block ``r``, each of them a bank or a part of one: the balanced operator's
    step behind the block operator's table. No bank crosses a tap. Values may be ``stored`` in half
    precision. (Joint sparsity: Guo et al., section III.)
    """
    c, s, o = contraction, storage, storage.outer
    lanes = o.group
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        values = T.arg(
            "V", T.Buffer(int64((s.entries, s.keep, lanes)), stored_dtype(stored, c.dtype))
        )
        indices = T.arg("I", T.Buffer(int64((s.entries, s.words, lanes)), str(s.index_dtype)))
        columns = T.arg("C", T.Buffer(int64((s.entries,)), str(o.column_dtype)))
        starts = T.arg("S", T.Buffer(int64((o.slots + 1,)), "int32"))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.dtype))
        with T.sblock("root"):
            acc = T.sblock_alloc_buffer(int64((*c.lead, o.slots, lanes)), c.dtype)
            _contract(c, s, (target, stored), (x, values, indices, columns, starts, acc))
            store_lanes(c, lanes, acc, y)
    return builder.get()


def _contract(
    c: Contraction, s: CompressedBanksFormat, how: tuple[Target, str], buffers: tuple[Any, ...]
) -> None:
    """Emit the block that accumulates one lookup in one bank; axes as in ``ops/block.py``."""
    x, values, indices, columns, starts, acc = buffers
    target, stored = how
    lookup = machine_of(target).lookup(c.dtype, s.bank)
    width = s.outer.group
    lanes = tirx.Ramp(0, 1, width)
    grid = int64((*c.lead, s.outer.slots, 1, s.longest, s.keep))
    with T.grid(*grid) as axes, T.sblock("contract"):
        *lead, slot, _, step, k = T.axis.remap("S" * (len(c.lead) + 2) + "RR", axes)
        entry = tirx.Cast("int64", starts[slot]) + step
        T.reads(
            whole(x),
            values[entry, k, 0:width],
            indices[entry, k // s.slots_per_word, 0:width],
            columns[entry],
            starts[slot : slot + 2],
        )
        T.writes(acc[(*lead, slot, slice(0, width))])
        T.sblock_attr({KIND: "joint", ROWS: row_axis(c.lead)})
        with T.init():
            zero = tirx.Broadcast(tirx.const(0, c.dtype), width)
            T.buffer_store(acc, zero, [*lead, slot, lanes])
        with T.If(step < tirx.Cast("int64", starts[slot + 1] - starts[slot])), T.Then():
            column = tirx.Cast("int64", columns[entry])
            row = c.input_index(lead, unravel(column // c.columns, c.taps))
            start = column % c.columns if c.taps else column
            shift = tirx.Cast("int32", k % s.slots_per_word * s.index_bits)
            word = indices[entry, k // s.slots_per_word, lanes]
            if str(s.index_dtype) != "int32":
                word = tirx.Cast(f"int32x{width}", word)
            index = tirx.shift_right(word, tirx.Broadcast(shift, width))
            weight = widen(values[entry, k, lanes], stored, width)
            product = weight * lookup(x, row, start, index)
            T.buffer_store(acc, acc[(*lead, slot, lanes)] + product, [*lead, slot, lanes])
