"""Recurrent layers step by step, where no function of ours has all of their steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.ops.contractions.cells import CELLS, Functions
from tvm_sparse.passes.graph.recurrences import Recurrent, recurrent_of
from tvm_sparse.passes.graph.rewrite import Rewriter, layer_name, rewrite


class _Unroll:
    """The rule."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        found = recurrent_of(call)
        if found is None:
            return None
        weight = rewriter.constant(found.weight)
        if self.whole and weight is not None:
            return None
        if not isinstance(found.record.steps, int):
            raise _open_steps(found.cell, weight)
        return unrolled(rewriter, found)


def _open_steps(cell: str, weight: Any | None) -> UnsupportedError:
    """Return what to tell of a layer whose steps can not be written out."""
    kind = cell.split("_", maxsplit=1)[0].upper()
    where = f"{kind} of computed weights" if weight is None else layer_name(weight)
    # layers of constant weights are whole on CPUs, in single precision
    expected = "weights that are constants" if weight is None else "a CPU, in float32"
    return UnsupportedError(
        where,
        "runs an open number of steps",
        f"{expected}, or one number of steps",
        "fix the length of the sequences by the example inputs or --shape",
    )


def unrolled(rewriter: Rewriter, layer: Recurrent) -> Any:
    """Emit the steps of ``layer`` and return the tuple of its results."""
    r, cell, op = layer.record, CELLS[layer.cell], relax.op
    functions = Functions(op.sigmoid, op.tanh, op.nn.relu, _choose, rewriter.emit)
    weight = rewriter.emit(op.permute_dims(layer.weight))
    states, rows = list(layer.states), {}
    for t in r.order:
        x = _piece(rewriter, layer.gates, int(r.batch_first), t, 1)
        x = rewriter.emit(op.reshape(x, [r.batch, r.gates]))
        read = _rounded(rewriter, states[0]) if layer.rounded else states[0]
        own = rewriter.emit(op.matmul(read, weight))
        own = own if layer.bias is None else rewriter.emit(op.add(own, layer.bias))
        inputs, products = (
            {g: _piece(rewriter, v, 1, i * r.hidden, r.hidden) for i, g in enumerate(cell.gates)}
            for v in (x, own)
        )
        new = cell.step(functions, inputs, products, states)
        states = [rewriter.emit(state) for state in new]
        shape = [*r.place(r.batch, 1), r.hidden]
        rows[t] = rewriter.emit(op.reshape(states[0], shape))
    every = [rows[t] for t in sorted(rows)]
    joined = every[0] if len(every) == 1 else op.concat(every, axis=int(r.batch_first))
    return relax.Tuple([rewriter.emit(joined), *states[1:]])


def _choose(first: Any, a: Any, b: Any) -> Any:
    """Return an element of ``a`` where that of ``first`` is more than zero, else one of ``b``."""
    return relax.op.where(relax.op.greater(first, relax.const(0.0, FLOAT_SUMS)), a, b)


def _rounded(rewriter: Rewriter, state: Any) -> Any:
    """Emit what the bytes of ``state`` mean, which reach from its least number to its most."""
    op, emit = relax.op, rewriter.emit
    zero, one, most = (relax.const(float(n), FLOAT_SUMS) for n in (0, 1, 255))
    low, high = emit(op.minimum(op.min(state), zero)), emit(op.maximum(op.max(state), zero))
    size = emit(op.divide(op.subtract(high, low), most))
    divisor = emit(op.where(op.equal(size, zero), one, size))
    place = emit(op.round(op.divide(op.negative(low), divisor)))
    steps = emit(op.add(op.round(op.divide(state, divisor)), place))
    return emit(op.multiply(op.subtract(op.clip(steps, 0, 255), place), size))


def _piece(rewriter: Rewriter, x: Any, axis: int, start: int, size: int) -> Any:
    """Emit a part of ``x`` along an axis."""
    return rewriter.emit(relax.op.strided_slice(x, [axis], [start], [start + size]))


@tvm.transform.module_pass(opt_level=0, name="UnrollRecurrences")
@dataclass(frozen=True)
class UnrollRecurrences:
    """Write out the steps of recurrent layers.

    before: ``recurrence(gates, w, h)`` --> after: for each step ``matmul(h, w^T)`` and the cell

    ``whole`` keeps the layers that :class:`LowerContractions` makes one function of: those with
    constant weights.
    """

    whole: bool

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with fewer recurrent layers."""
        return rewrite(mod, _Unroll(self.whole))
