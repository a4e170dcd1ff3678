"""Balanced-sparse linear layer and convolution: lanes of output rows look up a bank of columns."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.ops.contraction import Contraction
from tvm_sparse.ops.emit import store_lanes, stored_dtype, widen
from tvm_sparse.ops.marks import KIND, OUT_FUSABLE, ROWS, flat, int64, row_axis


def balanced(
    contraction: Contraction, storage: BalancedFormat, target: Target, stored: str = ""
) -> tirx.PrimFunc:
    """Return ``f(X, values, indices, Y)``.

    ``Y[..., o] = sum_gk values[o // L, g, k, o % L] * X[..., start(g) + index(o, g, k)]``, with
    ``L`` lanes: a reduction step is one lookup in a bank of activations and one multiply-add, both
    on a whole vector. Shapes: ``X``, ``Y`` as the contraction says, the others as
    ``BalancedFormat.encode`` gives; values may be ``stored`` in half
    precision. (Balanced sparsity: Yao et al., AAAI 2019, section 3.)
    """
    c, s = contraction, storage
    blocks = s.row_blocks // s.share
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({"op_pattern": OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        shape = int64((s.row_blocks, s.banks, s.keep, s.lanes))
        values = T.arg("V", T.Buffer(shape, stored_dtype(stored, c.dtype)))
        indices = T.arg("I", T.Buffer(int64((blocks, s.words, s.lanes)), "int32"))
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.dtype))
        with T.sblock("root"):
            acc = T.sblock_alloc_buffer(int64((*c.lead, s.row_blocks, s.lanes)), c.dtype)
            _contract(c, s, (target, stored), (x, values, indices, acc))
            store_lanes(c, s.lanes, acc, y)
    return builder.get()


def _contract(
    c: Contraction, s: BalancedFormat, how: tuple[Target, str], buffers: tuple[Any, ...]
) -> None:
    """Emit the block that accumulates one lookup of one bank."""
    x, values, indices, acc = buffers
    target, stored = how
    lookup = machine_of(target).lookup(c.dtype, s.bank)
    spatial_extents = (*c.lead, s.row_blocks // s.share, s.share)
    grid = int64((*spatial_extents, *c.taps, s.segment_banks, s.keep))
    spatial = len(c.lead) + 2
    lanes = tirx.Ramp(0, 1, s.lanes)
    with T.grid(*grid) as axes, T.sblock("contract"):
        kinds = "S" * spatial + "R" * (len(grid) - spatial)
        v = list(T.axis.remap(kinds, axes))
        lead, (block, member) = v[: len(c.lead)], v[len(c.lead) : spatial]
        *taps, bank, slot = v[spatial:]
        row = c.input_index(lead, taps)
        start = _start(s, bank)
        position = flat(taps, c.taps) * s.segment_banks + bank
        word, shift = _index_slot(s, position, bank, slot)
        here = (*lead, block * s.share + member)
        T.reads(
            x[(*row, slice(start, start + s.bank))],
            values[block * s.share + member, position, slot, 0 : s.lanes],
            indices[block, word, 0 : s.lanes],
        )
        T.writes(acc[(*here, slice(0, s.lanes))])
        T.sblock_attr({KIND: "balanced", ROWS: row_axis(c.lead)})
        with T.init():
            zero = tirx.Broadcast(tirx.const(0, c.dtype), s.lanes)
            T.buffer_store(acc, zero, [*here, lanes])
        index = tirx.shift_right(
            indices[block, word, lanes], tirx.Broadcast(tirx.Cast("int32", shift), s.lanes)
        )
        weight = widen(values[block * s.share + member, position, slot, lanes], stored, s.lanes)
        product = weight * lookup(x, row, start, index)
        T.buffer_store(acc, acc[(*here, lanes)] + product, [*here, lanes])


def _start(s: BalancedFormat, bank: Any) -> Any:
    """First column of a bank's window within its segment."""
    first = bank * s.bank
    if s.segment_cols % s.bank:
        return tirx.min(first, tirx.const(s.segment_cols - s.bank, "int64"))
    return first


def _index_slot(s: BalancedFormat, position: Any, bank: Any, slot: Any) -> tuple[Any, Any]:
    """Word that holds a slot's index, and the shift of the index inside it."""
    if s.words_per_bank > 1:
        word = position * s.words_per_bank + slot // s.slots_per_word
        return word, slot % s.slots_per_word * s.index_bits
    inner = bank % s.banks_per_word * s.keep + slot
    return position // s.banks_per_word, inner * s.index_bits
