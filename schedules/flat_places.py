"""Indices that are the parts of one number are this number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from tvm_sparse.schedules.blocks import map_functions, nodes

_QUOTIENTS = (tirx.FloorDiv, tirx.Div)
_REMAINDERS = (tirx.FloorMod, tirx.Mod)


@tvm.transform.module_pass(opt_level=0, name="FlatPlaces")
class FlatPlaces:
    """:func:`flat_places` of each function."""

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer divisions."""
        return map_functions(mod, flat_places)


def flat_places(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with rows of open planes of its parameters read and stored by their number.

    before: ``x[r // w // h, r // w % h, r % w, c]``, where ``x`` is ``(n, h, w, 64)``
    after:  ``x[0, 0, r, c]``

    Both are one place in memory. TVM finds that where the extents are numbers. Where they are open,
    each row costs three divisions of 20 cycles, and what TVM and LLVM make of them.
    """
    whole = [p for p in func.params if getattr(p, "shape", None) and not p.strides]
    found = [node for kind in (*_QUOTIENTS, *_REMAINDERS) for node in nodes(func.body, kind)]
    if all(isinstance(node.b, tirx.IntImm) for node in found):
        return func
    analyzer = Analyzer()

    def placed(source: Any, indices: Any) -> list[Any] | None:
        if len(indices) < 2 or not any(source.same_as(param) for param in whole):
            return None
        return _joined(list(source.shape), list(indices), analyzer)

    def load(node: ir.TensorLoad) -> Any:
        indices = placed(node.source, node.indices)
        return tirx.BufferLoad(node.source, indices) if indices else node

    def store(node: tirx.BufferStore) -> Any:
        indices = placed(node.buffer, node.indices)
        return tirx.BufferStore(node.buffer, node.value, indices) if indices else node

    rules = ((ir.TensorLoad, load), (tirx.BufferStore, store))
    body = tvm_ffi.structural_map(func.body, rules)
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _joined(extents: list[Any], indices: list[Any], analyzer: Analyzer) -> list[Any] | None:
    """Return ``indices`` with parts of one number joined in the last of them, others zero.

    ``None`` if nothing is joined.
    """
    parts = [_Part(extent, index, 1) for extent, index in zip(extents, indices, strict=True)]
    at = len(parts) - 2
    while at >= 0:
        number = _number(parts[at], parts[at + 1], analyzer)
        if number is None:
            at -= 1
            continue
        high, low = parts[at : at + 2]
        parts[at : at + 2] = [_Part(high.extent * low.extent, number, high.axes + low.axes)]
        at = len(parts) - 2
    if len(parts) == len(indices):
        return None
    zero = tirx.const(0, "int64")
    return [index for part in parts for index in [*[zero] * (part.axes - 1), part.index]]


@dataclass(frozen=True)
class _Part:
    """An index of so many axes, and their extent together."""

    extent: Any
    index: Any
    axes: int


def _number(high: _Part, low: _Part, analyzer: Analyzer) -> Any | None:
    """Return the number whose quotient and remainder by ``low.extent`` two indices are."""
    for quotient, remainder in ((tirx.FloorDiv, tirx.FloorMod), (tirx.Div, tirx.Mod)):
        if not (isinstance(high.index, quotient) and isinstance(low.index, remainder)):
            continue
        equal, number, by = analyzer.can_prove_equal, low.index.a, low.index.b
        divided = high.index.a
        if not equal(by, low.extent):
            return None
        if _same(divided, number) and equal(high.index.b, by):
            return number
        if isinstance(divided, remainder) and _same(divided.a, number) and equal(high.index.b, by):
            return divided if equal(divided.b, by * high.extent) else None
        if isinstance(number, quotient) and _same(divided, number.a):
            return number if equal(high.index.b, number.b * by) else None
    return None


def _same(one: Any, other: Any) -> bool:
    return bool(tvm_ffi.structural_equal(one, other))
