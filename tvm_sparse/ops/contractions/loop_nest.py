"""The loop nest of contractions on CPUs that read weights a vector at a time.

Each step brings the next vector of weights, says which activations it meets, and adds the products
to a vector of sums. What is stored, and in which order, is all that operators differ in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.machine.engine.cpu import Engine, Vector
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.numbered_rows import NumberedRows
from tvm_sparse.ops.contractions.store import declare_offsets, store
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, ROWS, group_mark, int64, row_axis

IMPORT = "pragma_import_llvm"
"""TVM's annotation: functions in LLVM's language that the block calls."""


@dataclass(frozen=True)
class At:
    """Where a step of the nest is: indices of the leading axes, of the weights' axes, and of steps.

    ``block`` and ``member`` count the vectors of features, ``steps`` has an index for each of
    ``Weights.steps``.
    """

    lead: list[Expr]
    block: Expr
    member: Expr
    steps: list[Expr]


@dataclass(frozen=True)
class Step:
    """What one step multiplies.

    ``reads`` are the regions that it touches, ``vector`` the number of its sums. Where ``exists``
    is false, there is nothing to add. ``further`` pairs of weights and activations are added to the
    product before it is added to the sums, which the next step waits for.
    """

    reads: list[Any]
    vector: Expr
    weights: Vector
    activations: Vector
    exists: Expr | None = None
    further: Sequence[tuple[Vector, Vector]] = ()


class Weights(Protocol):
    """Stored weights of a contraction, as a loop nest walks them."""

    @property
    def operator(self) -> str:
        """The operator's mark."""

    @property
    def lanes(self) -> int:
        """Rows of the weight matrix in a vector."""

    @property
    def extents(self) -> tuple[int, int]:
        """Blocks of features, and vectors of a block (members)."""

    @property
    def steps(self) -> tuple[int, ...]:
        """Extents of the axes that are summed over."""

    def declare(self, engine: Engine) -> None:
        """Emit the function's parameters."""

    def step(self, c: Contraction, engine: Engine, x: tirx.Buffer, at: At) -> Step:
        """Return what the step ``at`` multiplies; ``x`` is the input."""


def loop_nest(
    c: Contraction,
    weights: Weights,
    target: Target,
    *,
    centred: bool = True,
    numbered: bool = False,
) -> tirx.PrimFunc:
    """Return ``f(X, *weights, Y)``: the sums of all steps, stored as features side by side.

    Integers have a parameter ``Z`` before ``Y``: what :mod:`tvm_sparse.formats.offsets` makes of
    zero points, to be added to each feature. Sums that are not ``centred`` are left without it, and
    so are those of unsigned bytes whose zero point is zero. The positions of an image may be
    ``numbered``, see :class:`~tvm_sparse.ops.contractions.numbered_rows.NumberedRows`.

    Raises
    ------
    UnsupportedError
        ``target`` has no engine for the numerics of ``c``.
    """
    engine = engine_of(c.numerics, target)
    lanes, (blocks, members) = weights.lanes, weights.extents
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        weights.declare(engine)
        offsets = declare_offsets(c, engine) if centred else None
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            rows = NumberedRows.of(c, target, numbered=numbered)
            shape = int64((*rows.extents, blocks * members, lanes))
            sums = T.sblock_alloc_buffer(shape, c.numerics.accumulate)
            _contract(rows, weights, engine, x, sums)

            def sum_of(lead: list[Any], out: Any) -> Any:
                return sums[(*rows.numbered(lead), out // lanes, out % lanes)]

            store(c, sum_of, offsets, y)
    return builder.get()


def _contract(
    rows: NumberedRows, weights: Weights, engine: Engine, x: tirx.Buffer, sums: tirx.Buffer
) -> None:
    """Emit the block that adds up one step."""
    c, lead, lanes = rows.contraction, len(rows.extents), weights.lanes
    grid = int64((*rows.extents, *weights.extents, *weights.steps))
    with T.grid(*grid) as axes, T.sblock("contract"):
        v = list(T.axis.remap("S" * (lead + 2) + "R" * len(weights.steps), axes))
        at = At(rows.lead(v[:lead]), v[lead], v[lead + 1], v[lead + 2 :])
        step = weights.step(c, engine, x, at)
        step = _guarded(engine, step) if c.guarded else step
        own = (*v[:lead], step.vector)
        T.reads(*step.reads)
        T.writes(sums[(*own, slice(0, lanes))])
        marks = {OPERATOR: weights.operator, ROWS: row_axis(rows.extents)}
        T.sblock_attr(marks | group_mark(c.features, c.groups, lanes))
        if engine.code:
            T.sblock_attr({IMPORT: engine.code})
        here = (*own, tirx.Ramp(0, 1, lanes))
        with T.init():
            T.buffer_store(sums, engine.zero(lanes), list(here))
        total = _total(engine, sums[here], step, lanes)
        if step.exists is None:
            T.buffer_store(sums, total, list(here))
        else:
            with T.If(step.exists), T.Then():
                T.buffer_store(sums, total, list(here))


def _guarded(engine: Engine, step: Step) -> Step:
    """Return a step that multiplies zeros where weights are zero."""

    def pair(weights: Vector, activations: Vector) -> tuple[Vector, Vector]:
        return weights, engine.kept(weights, activations)

    weights, activations = pair(step.weights, step.activations)
    further = [pair(*each) for each in step.further]
    return replace(step, weights=weights, activations=activations, further=further)


def _total(engine: Engine, sums: Vector, step: Step, lanes: int) -> Vector:
    """Return ``sums`` with all products of a step added."""
    if not step.further:
        return engine.multiply(sums, step.weights, step.activations)
    product = engine.multiply(engine.zero(lanes), step.weights, step.activations)
    for weights, activations in step.further:
        product = engine.multiply(product, weights, activations)
    return sums + product
