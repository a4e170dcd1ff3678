"""A recurrent layer as one function: a loop over the steps around the product of the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT32, FLOAT_SUMS, INTEGER_SUMS, Numerics
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.bytes.round_state import RoundedState
from tvm_sparse.ops.contractions.cells import CELLS, Cell, Functions
from tvm_sparse.ops.contractions.contraction import Contraction, Extent
from tvm_sparse.ops.emit import filled, lanes_from, whole
from tvm_sparse.ops.marks import FUSION, OPAQUE, STEP, int64

_BATCH, _STEPS = (tirx.Var(name, "int64") for name in ("batch", "steps"))
"""Those of all open layers: a product that was chosen for one of them serves the others."""


@dataclass(frozen=True)
class Recurrence:
    """One direction of a recurrent layer behind the product of all inputs.

    ``cell`` is a key of :data:`.cells.CELLS`. Sequences are ``batch`` first if they
    are ``batch_first``, else steps first. With a ``bias``, it is added to the state's product. What
    that reads is ``rounded``: to bytes, whose step and zero point each state has itself. The
    product is one of ``numerics``: bytes, or the floats that they mean.
    """

    cell: str
    batch: Extent
    steps: Extent
    hidden: int
    reverse: bool = False
    batch_first: bool = False
    bias: bool = False
    rounded: bool = False
    numerics: Numerics = FLOAT32

    @property
    def gates(self) -> int:
        """Features of a step's products: all gates side by side."""
        return len(CELLS[self.cell].gates) * self.hidden

    @property
    def product(self) -> Contraction:
        """The product of the hidden state in one step."""
        return Contraction((self.batch,), self.hidden, self.gates, numerics=self.numerics)

    @property
    def integers(self) -> bool:
        """Whether the product adds up integers."""
        return not self.numerics.floating

    @property
    def state_shape(self) -> tuple[Extent, ...]:
        """Shape of each state."""
        return self.batch, self.hidden

    def sequence_shape(self, features: int) -> tuple[Extent, ...]:
        """Return the shape of a tensor that has ``features`` for each step."""
        return (*self.place(self.batch, self.steps), features)

    def place(self, item: Any, step: Any) -> tuple[Any, Any]:
        """Return the leading indices of an item of the batch at a step."""
        return (item, step) if self.batch_first else (step, item)

    @property
    def in_own_symbols(self) -> Recurrence:
        """The same, with variables for an open batch and length: its tensors bring them along."""
        batch = self.batch if isinstance(self.batch, int) else _BATCH
        steps = self.steps if isinstance(self.steps, int) else _STEPS
        return replace(self, batch=batch, steps=steps)

    @property
    def order(self) -> Iterator[int]:
        """The steps in the order in which they are taken, where their number is known."""
        return iter(range(self.steps)[:: -1 if self.reverse else 1])


def recurrence(r: Recurrence, product: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``f(G, *weights[, F, W][, B], *states, Y, *last)``.

    ``G`` has the products of all inputs, ``Y`` all hidden states; ``last`` are the other states
    behind the last step. ``F`` is what a step of each feature's weights means, ``W`` their sum, if
    they are integers. ``product`` is ``f(X, *weights, S)``, any operator of ``r.product``: its
    body becomes the block marked :data:`~tvm_sparse.ops.marks.STEP`, which schedules are made for.
    """
    cell = CELLS[r.cell]
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OPAQUE, "tirx.noalias": True})
        x = _argument("G", r.sequence_shape(r.gates))
        x_state, *arrays, x_sums = product.params
        weights = [T.arg(a.name, T.Buffer(a.shape, a.dtype)) for a in arrays]
        factors = _argument("F", (r.gates,)) if r.integers else None
        totals = T.arg("W", T.Buffer(int64((r.gates,)), INTEGER_SUMS)) if r.integers else None
        bias = _argument("B", (r.gates,)) if r.bias else None
        first = [_argument(f"S{i}", r.state_shape) for i in range(cell.states)]
        y = _argument("Y", r.sequence_shape(r.hidden))
        last = [_argument(f"L{i}", r.state_shape) for i in range(1, cell.states)]
        with T.sblock("recurrence"):
            states = [T.sblock_alloc_buffer(int64(r.state_shape), FLOAT_SUMS) for _ in first]
            sums = T.sblock_alloc_buffer(int64((r.batch, r.gates)), r.numerics.accumulate)
            rounding = RoundedState(r.batch, r.hidden, r.numerics) if r.rounded else None
            read = rounding.values if rounding else states[0]
            same = dict(zip((x_state, *arrays, x_sums), (read, *weights, sums), strict=True))
            step = _Step(r, cell, x, bias, sums, states, y, rounding, factors, totals)
            for source, state in zip(first, states, strict=True):
                _copy(r, source, state)
            with T.serial(0, r.steps) as t:
                if rounding:
                    rounding.emit(states[0])
                with T.sblock("step"):
                    T.reads(whole(read), *map(whole, weights))
                    T.writes(whole(sums))
                    T.sblock_attr({STEP: True})
                    T.add_to_parent(_with_buffers(product.body, same))
                step.emit(r.steps - 1 - t if r.reverse else t)
            for state, target in zip(states[1:], last, strict=True):
                _copy(r, state, target)
    # TVM gives each function symbols of its own, but misses buffers of inner blocks.
    static = isinstance(r.batch, int) and isinstance(r.steps, int)
    return builder.get() if static else s_tir.renew_defs(builder.get())


@dataclass(frozen=True)
class _Step:
    """What follows a step's product: the gates, the next states, the step's output."""

    r: Recurrence
    cell: Cell
    x: Any
    bias: Any
    sums: Any
    states: list[Any]
    y: Any
    rounding: RoundedState | None
    factors: Any
    totals: Any

    def emit(self, t: Any) -> None:
        """Emit the step ``t``."""
        _in_vectors(self.r, lambda item, lanes: self._vector(item, t, lanes))

    def _vector(self, item: Any, t: Any, lanes: Callable[[Any], Any]) -> None:
        """Emit neighbouring features; ``lanes`` are their positions behind a first one."""
        r, inputs, own = self.r, {}, {}
        for i, gate in enumerate(self.cell.gates):
            at = lanes(i * r.hidden)
            inputs[gate] = self.x[(*r.place(item, t), at)]
            own[gate] = self._product(item, at)
            if self.bias is not None:
                own[gate] += self.bias[at]
        at = lanes(0)
        before = [state[item, at] for state in self.states]
        for state, value in zip(
            self.states, self.cell.step(_FUNCTIONS, inputs, own, before), strict=True
        ):
            T.buffer_store(state, value, [item, at])
        T.buffer_store(self.y, self.states[0][item, at], [*r.place(item, t), at])

    def _product(self, item: Any, at: Any) -> Any:
        """Return the state's products with the features ``at``."""
        sums = self.sums[item, at]
        if self.rounding is None or not self.r.integers:
            return sums
        return self.rounding.rescaled(sums, self.totals[at], self.factors[at])


def _relu(x: Any) -> Any:
    """Return ``x`` or zero, NaN if it is NaN: a comparison with NaN fails."""
    zero, value = _zeros(x), _kept(x)
    return tirx.Select(value < zero, zero, value)


def _choose(first: Any, a: Any, b: Any) -> Any:
    """Return lanes of ``a`` where those of ``first`` are more than zero, else those of ``b``."""
    return tirx.Select(first > _zeros(first), a, b)


def _zeros(x: Any) -> Any:
    """Return a zero for each lane of ``x``."""
    return filled(0.0, FLOAT_SUMS, int(x.ty.dtype.lanes))


def _kept(x: Any) -> Any:
    """Return ``x`` from memory, which LLVM keeps in a register.

    TVM's code generator cannot bind a variable to what functions become, which binds some itself.
    """
    lanes = int(x.ty.dtype.lanes)
    buffer = T.sblock_alloc_buffer((lanes,), FLOAT_SUMS)
    at = lanes_from(0, lanes)
    T.buffer_store(buffer, x, [at])
    return buffer[at]


_FUNCTIONS = Functions(tirx.sigmoid, tirx.tanh, _relu, _choose, _kept)


def _argument(name: str, shape: tuple[Extent, ...]) -> Any:
    return T.arg(name, T.Buffer(int64(shape), FLOAT_SUMS))


def _copy(r: Recurrence, source: Any, target: Any) -> None:
    """Emit a copy of a state."""

    def vector(item: Any, lanes: Callable[[Any], Any]) -> None:
        T.buffer_store(target, source[item, lanes(0)], [item, lanes(0)])

    _in_vectors(r, vector)


def _in_vectors(r: Recurrence, emit: Callable[[Any, Callable[[Any], Any]], None]) -> None:
    """Emit loops over the batch and the vectors of its states; the last vector may be shorter."""
    vectors, rest = divmod(r.hidden, LANES)
    with T.serial(0, r.batch) as item:
        if vectors:
            with T.serial(0, vectors) as vector:
                emit(item, lambda first: tirx.Ramp(first + vector * LANES, 1, LANES))
        if rest:
            emit(item, lambda first: lanes_from(first + vectors * LANES, rest))


def _with_buffers(body: Any, same: dict[Any, Any]) -> Any:
    """Return ``body`` on other buffers."""
    return tvm_ffi.structural_map(body, (tirx.Var, lambda var: same.get(var, var)))
