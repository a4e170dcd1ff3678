"""Functions of one byte become tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.lookup import ENTRIES
from tvm_sparse.machine.record import Machine
from tvm_sparse.machine.vector import VECTOR_BYTES
from tvm_sparse.ops.bytes.byte_table import BYTE, byte_table
from tvm_sparse.ops.marks import TABLE
from tvm_sparse.passes.bytes.quantization import BYTES, meaning_of, zero_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import Rewriter, constant, op_name, rewrite, static_shape

_MOST_STEPS = 32
"""Operators of a function; longer chains are left alone."""


@dataclass
class _Function:
    """What one tensor is, for each byte of another.

    ``root`` is that other tensor, found on the way. ``tables`` are those made before, with their
    roots: a table of a table is a table of what was looked up first. ``costly`` says whether it
    takes longer than to look it up.
    """

    rewriter: Rewriter
    tables: dict[Any, tuple[Any, np.ndarray]]
    root: Any = None
    costly: bool = False
    steps: int = 0
    values: dict[Any, np.ndarray | None] = field(default_factory=dict)

    def of(self, expr: Any) -> np.ndarray | None:
        """Return the 256 values of ``expr``, or its only one; ``None`` if others decide, too."""
        if expr not in self.values:
            self.values[expr] = self._of(expr)
        return self.values[expr]

    def _of(self, expr: Any) -> np.ndarray | None:
        found = self.rewriter.constant(expr)
        if found is not None:
            value = array_of(found)
            return value.reshape(-1) if value.size == 1 else None
        call, self.steps = self.rewriter.resolve(expr), self.steps + 1
        if self.steps > _MOST_STEPS:
            return None
        own = {"dequantize": self._meaning, "quantize": self.rounded}.get(op_name(call))
        return own(call) if own else self._elementwise(call)

    def _elementwise(self, call: Any) -> np.ndarray | None:
        known = ELEMENTWISE.get(op_name(call))
        if known is None or known.numpy is None:
            return None
        operands = [self.of(argument) for argument in call.args]
        if any(operand is None for operand in operands):
            return None
        self.costly |= known.costly
        with np.errstate(all="ignore"):
            return np.asarray(known.numpy(*operands), FLOAT_SUMS)

    def _meaning(self, call: relax.Call) -> np.ndarray | None:
        meaning = meaning_of(self.rewriter, call)
        if meaning is None:
            return None
        values = self._made(meaning.bytes)
        values = self._root(meaning.bytes) if values is None else values
        if values is None:
            return None
        centred = values.astype(np.int32) - meaning.scale.zero_point
        return centred.astype(FLOAT_SUMS) * np.dtype(FLOAT_SUMS).type(meaning.scale.scale)

    def _made(self, tensor: Any) -> np.ndarray | None:
        """Return ``tensor`` if it, too, is a function of one byte."""
        if op_name(self.rewriter.resolve(tensor)) != "quantize":
            return None
        before = self.root, self.costly, dict(self.values)
        values = self.of(tensor)
        if values is None:  # what was found on the way was of another root
            self.root, self.costly, self.values = before
        return values

    def _root(self, tensor: Any) -> np.ndarray | None:
        """Return the bytes that ``tensor`` has for each byte of the root."""
        dtype, tensor = str(tensor.ty.dtype), _bound(self.rewriter, tensor)
        root, table = self.tables.get(tensor, (tensor, np.arange(ENTRIES, dtype=BYTE)))
        if dtype not in BYTES or (self.root is not None and not root.same_as(self.root)):
            return None
        self.root = root
        self.costly |= tensor in self.tables
        return table.view(dtype)

    def rounded(self, call: relax.Call) -> np.ndarray | None:
        """Return the bytes that ``call``, a ``quantize``, makes."""
        steps, zero, dtype = self.of(call.args[0]), zero_of(call), str(call.ty.dtype)
        if steps is None or zero is None or len(steps) != ENTRIES:
            return None
        limits, whole = np.iinfo(dtype), np.rint(np.nan_to_num(steps, nan=-np.inf)) + zero
        return np.clip(whole, limits.min, limits.max).astype(dtype)


def _bound(rewriter: Rewriter, tensor: Any) -> Any:
    """Return the variable that ``tensor`` is another name of."""
    while isinstance(other := rewriter.lookup_binding(tensor), relax.Var):
        tensor = other
    return tensor


class _TabulateBytesRule:
    """The rule; remembers the tables that it made."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.tables: dict[Any, tuple[Any, np.ndarray]] = {}

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        shape = static_shape(call)
        if op_name(call) != "quantize" or shape is None or math.prod(shape) < VECTOR_BYTES:
            return None
        function = _Function(rewriter, self.tables)
        values = function.rounded(call)
        if values is None or not function.costly or static_shape(function.root) != shape:
            return None
        table = values.view(BYTE)
        result = look_up(rewriter, function.root, table, str(call.ty.dtype), self.machine)
        self.tables[result] = function.root, table
        return result


def look_up(rewriter: Rewriter, x: Any, table: np.ndarray, dtype: str, machine: Machine) -> Any:
    """Return the entry of ``table``, 256 bytes, for each byte of ``x``, as ``dtype``."""
    return rewriter.builder_.emit_te(
        lambda t, entries: byte_table(t, entries, machine, dtype),
        *(x, constant(table)),
        primfunc_name_hint="byte_table",
        primfunc_attrs={TABLE: True},
    )


@tvm.transform.module_pass(opt_level=0, name="TabulateBytes")
@dataclass(frozen=True)
class TabulateBytes:
    """Look up what a costly function makes of a byte.

    before: ``quantize(multiply(gelu(dequantize(q)), c))`` --> after: ``byte_table(q, table)``

    The table has what NumPy makes of each byte: right to the last bits of single precision.
    """

    machine: Machine

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with tables."""
        return rewrite(mod, _TabulateBytesRule(self.machine))
