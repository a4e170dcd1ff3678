"""The right operand of a product of bytes, packed as weights are, when the network runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.base.numerics import is_signed, vector_type
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.batch_matmul import View
from tvm_sparse.ops.contractions.byte_products import ByteProduct
from tvm_sparse.ops.emit import filled, lanes_from, unravel
from tvm_sparse.ops.marks import int64

PARALLEL_BYTES = 1 << 20
"""Smallest right operand that is worth several threads."""

WORD = "uint32"

FLIP = 0x80808080
"""The top bit of each byte of a word: what an unsigned byte and a signed one differ in."""


def packed(right: te.Tensor, view: View, product: ByteProduct, target: Target) -> te.Tensor:
    """Return ``view`` of ``right``, the right operand, as :class:`DenseFormat` has its weights.

    Four columns are side by side in each lane, features in the lanes. Lanes behind the last feature
    have copies of it, which nothing reads the sums of.
    """
    format, shape = product.format(target), product.packed_shape(target)
    dtype = product.contraction.numerics.weight
    flip = 0 if is_signed(str(right.dtype)) else FLIP

    def emit(inputs: Any, outputs: Any) -> Any:
        pack = _Pack(T.buffer_proxy(inputs[0]), view, format, flip)
        result = T.buffer_proxy(outputs[0])
        count = math.prod(product.batch)
        loop = T.parallel if math.prod(shape) >= PARALLEL_BYTES else T.serial
        with IRBuilder() as builder, loop(0, tirx.const(count, "int64")) as n:
            pack.item(result, unravel(n, product.batch))
        return builder.get()

    return te.extern([int64(shape)], [right], emit, name="pack_bytes", dtype=dtype)


@dataclass(frozen=True)
class _Pack:
    """Emits the words of one item of the batch: four columns of one feature each."""

    source: Any
    view: View
    format: DenseFormat
    flip: int

    def item(self, result: Any, batch: list[Any]) -> None:
        """Emit all blocks of features of an item."""
        s = self.format
        whole = s.rows // s.lanes if _in_rows(self.view, -1) else 0
        with T.serial(0, tirx.const(whole, "int64")) as block:
            self._block(result, batch, block, self._vectors)
        with T.serial(tirx.const(whole, "int64"), tirx.const(s.row_blocks, "int64")) as block:
            self._block(result, batch, block, self._words)

    def _block(self, result: Any, batch: list[Any], block: Any, emit: Callable[..., None]) -> None:
        s = self.format
        plain = s.cols // s.depth
        with T.serial(0, tirx.const(plain, "int64")) as group:
            columns = [group * s.depth + i for i in range(s.depth)]
            emit(result, (*batch, block, group), columns)
        if plain < s.groups:
            emit(result, (*batch, block, tirx.const(plain, "int64")), self._last())

    def _last(self) -> list[Any]:
        """Return the columns of a last group that ends with them, ``None`` for zeros."""
        s = self.format
        start, rest = max(0, s.cols - s.depth), s.cols % s.depth
        own = [start + i if start + i < s.cols else None for i in range(s.depth)]
        return [None if start and i < s.depth - rest else k for i, k in enumerate(own)]

    def _vectors(self, result: Any, at: tuple[Any, ...], columns: Sequence[Any]) -> None:
        """Emit the words of a whole block, whose features lie side by side."""
        s, (*batch, block, _) = self.format, at
        first = block * s.lanes
        parts = [None if k is None else self._read((*batch, k, first), s.lanes) for k in columns]
        wide = s.lanes * s.depth
        result[(*at, tirx.Ramp(0, 1, wide))] = tirx.reinterpret(
            vector_type(str(result.dtype), wide), self._joined(parts, s.lanes)
        )

    def _words(self, result: Any, at: tuple[Any, ...], columns: Sequence[Any]) -> None:
        """Emit the words of a block one by one."""
        s, (*batch, block, _) = self.format, at
        together = None not in columns and _in_rows(self.view, -2)
        with T.serial(0, tirx.const(s.lanes, "int64")) as lane:
            feature = tirx.min(block * s.lanes + lane, tirx.const(s.rows - 1, "int64"))
            if together:
                four = self._read((*batch, columns[0], feature), s.depth)
                word = self._flipped(tirx.reinterpret(WORD, four), 1)
            else:
                parts = [None if k is None else self._read((*batch, k, feature)) for k in columns]
                word = self._joined(parts, 1)
            place = (*at, tirx.Ramp(lane * s.depth, 1, s.depth))
            result[place] = tirx.reinterpret(vector_type(str(result.dtype), s.depth), word)

    def _read(self, index: tuple[Any, ...], lanes: int = 1) -> Any:
        """Return unsigned bytes from ``index`` on that lie side by side."""
        *lead, last = self.view.source(index)
        dtype = vector_type("uint8", lanes)
        return tirx.reinterpret(dtype, self.source[(*lead, lanes_from(last, lanes))])

    def _joined(self, parts: Sequence[Any], lanes: int) -> Any:
        """Return words of four bytes each, zero points of the signed type where there is none."""
        word = filled(0, WORD, lanes)
        for i, part in enumerate(parts):
            # What is flipped to zero below.
            dtype = vector_type(WORD, lanes)
            byte = filled(self.flip & 0xFF, WORD, lanes) if part is None else tirx.Cast(dtype, part)
            word = tirx.bitwise_or(word, tirx.shift_left(byte, filled(8 * i, WORD, lanes)))
        return self._flipped(word, lanes)

    def _flipped(self, word: Any, lanes: int) -> Any:
        return tirx.bitwise_xor(word, filled(self.flip, WORD, lanes)) if self.flip else word


def _in_rows(view: View, axis: int) -> bool:
    """Whether neighbours along ``axis`` of the view are neighbours in one row of its tensor."""
    places = np.moveaxis(view.places(), axis, -1)
    first = places[..., :1] % view.shape[-1]
    inside = first + places.shape[-1] <= view.shape[-1]
    return bool(inside.all() and (np.diff(places, axis=-1) == 1).all())
