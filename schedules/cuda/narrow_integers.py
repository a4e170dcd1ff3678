"""Integers of 8 and 16 bits, of which TVM's code for CUDA knows less than of floats."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_sparse.schedules.blocks import map_functions
from tvm_sparse.schedules.cuda.scalar_lanes import BYTES

ASYNCHRONOUS = "async_scope"
"""What TVM marks statements with that a pipeline copies ahead."""

NARROW = (*BYTES, "int16", "uint16")
SUMS = (tirx.Add, tirx.Sub, tirx.Mul)

SIZES = (4, 8, 16)
"""Bytes that a copy of one thread may have."""

WORD = 4
"""Bytes of a word."""

_STOCK = {name: getattr(s_tir.transform, name) for name in ("InjectPTXAsyncCopy", "LowerAsyncDMA")}
_IF, _COPY = "prim.if_then_else", "tirx.s_tir.cp_async_raw"


@tvm.transform.module_pass(opt_level=0, name="NarrowIntegers")
class NarrowIntegers:
    """Copy bytes asynchronously under their condition, write constant ones as words, wrap sums.

    before: ``xs[i : i + 16] = if_then_else(c, x[j : j + 16], 0)``
    after:  ``cp_async_raw(xs, i, x, j, 16, c)``

    before: ``Broadcast(int8(3), 16)`` --> after: ``reinterpret(Broadcast(0x03030303, 4))``

    before: ``a + b`` of bytes --> after: ``Cast("uint8", Cast("int32", a) + Cast("int32", b))``

    TVM's own pass predicates copies of floats only, and its vectors of constant bytes do not
    compile. C adds up bytes in 32 bits, and what reads such a sum would read more than a byte.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such copies, constants and sums."""
        return map_functions(mod, _changed)


def _changed(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(func.body, (tirx.AttrStmt, _ahead))
    rules = [(tirx.Broadcast, _in_words), *((kind, _wrapped) for kind in SUMS)]
    body = tvm_ffi.structural_map(body, rules)
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _ahead(mark: tirx.AttrStmt) -> Any:
    """Return what a pipeline copies ahead, with the copies of bytes as calls."""
    if mark.attr_key != ASYNCHRONOUS:
        return mark
    body = tvm_ffi.structural_map(mark.body, (tirx.BufferStore, _call))
    return tirx.AttrStmt(mark.node, mark.attr_key, mark.value, body)


def _call(store: tirx.BufferStore) -> Any:
    """Return the copy that ``store`` is, or itself."""
    value, to = store.value, store.buffer
    if not isinstance(value, ir.Call) or not value.op.same_as(ir.Op.get(_IF)):
        return store
    inside, load, other = value.args
    if str(to.dtype) not in BYTES or not isinstance(load, ir.TensorLoad):
        return store
    places = store.indices[-1], load.indices[-1]
    whole = all(isinstance(place, tirx.Ramp) for place in places)
    if not whole or int(value.ty.dtype.lanes) not in SIZES or not _is_zero(other):
        return store
    first, source = (place.base for place in places)
    nbytes = tirx.const(int(value.ty.dtype.lanes), "int32")
    operands = [to.data, first, load.source.data, source, nbytes, inside]
    return tirx.Evaluate(ir.Call(ir.Op.get(_COPY), operands, ret_ty=str(to.dtype)))


def _is_zero(value: Any) -> bool:
    value = value.value if isinstance(value, tirx.Broadcast) else value
    return isinstance(value, tirx.IntImm) and int(value) == 0


def _in_words(vector: tirx.Broadcast) -> Any:
    """Return a vector of one constant byte by its words, if it has several."""
    value, lanes = vector.value, int(vector.ty.dtype.lanes)
    known = isinstance(value, tirx.IntImm) and str(value.ty.dtype) in BYTES
    if not known or lanes <= WORD:
        return vector
    word = int.from_bytes(bytes([int(value) % 256] * WORD), "little", signed=True)
    words = tirx.Broadcast(tirx.const(word, "int32"), lanes // WORD)
    return tirx.reinterpret(f"{value.ty.dtype}x{lanes}", words)


def _wrapped(result: Any) -> Any:
    """Return a sum, difference or product, computed in 32 bits and cut to its own."""
    dtype = str(result.ty.dtype)
    if dtype not in NARROW:
        return result
    wide = (tirx.Cast("int32", operand) for operand in (result.a, result.b))
    return tirx.Cast(dtype, type(result)(*wide))


class _Exchange:
    """Our passes in place of TVM's, from the first of those who want them to the last one."""

    def __init__(self) -> None:
        self.users, self.lock = 0, threading.Lock()
        both = [NarrowIntegers(), _STOCK["InjectPTXAsyncCopy"]()]
        made = {"InjectPTXAsyncCopy": both, "LowerAsyncDMA": []}
        self.own = {name: tvm.transform.Sequential(passes) for name, passes in made.items()}

    def count(self, more: int) -> None:
        """Count those who build, and put passes in place for the first and the last of them."""
        with self.lock:
            self.users += more
            for name, stock in _STOCK.items():
                ours = functools.partial(self.own.__getitem__, name)
                setattr(s_tir.transform, name, ours if self.users else stock)


_EXCHANGE = _Exchange()


@contextlib.contextmanager
def narrow_integers() -> Iterator[None]:
    """Let TVM's pass for asynchronous copies run behind ours, and none that makes others of them.

    ``LowerAsyncDMA`` is for other devices. It would take plain copies of whole rows of bytes. May
    be entered again, and by several threads.
    """
    _EXCHANGE.count(1)
    try:
        yield
    finally:
        _EXCHANGE.count(-1)
