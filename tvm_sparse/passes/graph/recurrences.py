"""Recurrent layers in a graph: calls of a function that only our passes know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.contractions.cells import CELLS
from tvm_sparse.ops.contractions.recurrence import Recurrence
from tvm_sparse.passes.graph.rewrite import op_name, shape_of

_NAME = "tvm_sparse.recurrence"
_FLAGS = ("reverse", "batch_first", "rounded", "bias")


@dataclass(frozen=True)
class Recurrent:
    """A recurrent layer in a graph, behind the product of its inputs.

    ``gates`` has the products of all inputs, ``weight`` is ``(gates * hidden, hidden)``; ``bias``
    is added to the product of the hidden state, which reads a state that is ``rounded``.
    """

    cell: str
    gates: Any
    weight: Any
    states: list[Any]
    bias: Any = None
    reverse: bool = False
    batch_first: bool = False
    rounded: bool = False

    @property
    def record(self) -> Recurrence:
        """What it computes, without the operands."""
        first, second, _ = shape_of(self.gates) or (0, 0, 0)
        batch, steps = (first, second) if self.batch_first else (second, first)
        hidden = (shape_of(self.weight) or [0])[-1]
        flags = self.reverse, self.batch_first, self.bias is not None, self.rounded
        return Recurrence(self.cell, batch, steps, hidden, *flags)

    @property
    def types(self) -> list[Any]:
        """Types of the results: all hidden states, the other states behind the last step."""
        r = self.record
        shapes = [r.sequence_shape(r.hidden), *[r.state_shape] * (len(self.states) - 1)]
        return [relax.TensorType(shape, FLOAT_SUMS) for shape in shapes]

    def call(self) -> relax.Call:
        """Return the layer as an expression, a tuple of its results."""
        given = [self.gates, self.weight, *self.states]
        given += [] if self.bias is None else [self.bias]
        flags = [flag for flag in _FLAGS if getattr(self, flag) not in (False, None)]
        name = " ".join([_NAME, self.cell, *flags])
        return relax.op.call_pure_packed(name, *given, ty_args=relax.TupleType(self.types))


def recurrent_of(expr: Any) -> Recurrent | None:
    """Return the recurrent layer that ``expr`` is, if it is one."""
    if op_name(expr) != "call_pure_packed":
        return None
    name, cell, *flags = [*str(expr.args[0].global_symbol).split(" "), ""]
    if name != _NAME:
        return None
    gates, weight, *given = expr.args[1:]
    states = CELLS[cell].states
    (bias,) = given[states:] or [None]
    options = {flag: flag in flags for flag in _FLAGS if flag != "bias"}
    return Recurrent(cell, gates, weight, given[:states], bias, **options)
