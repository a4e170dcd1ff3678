"""Functions of loop nests before they are scheduled: nests that compute element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx


@dataclass(frozen=True)
class Nest:
    """One loop nest of a function, with one block in it."""

    statement: Any
    block: Any

    def reads(self, buffer: Any) -> bool:
        """Whether the nest reads ``buffer``."""
        found: list[bool] = []

        def look(load: Any) -> None:
            found.append(load.source.same_as(buffer))

        tvm_ffi.structural_walk(self.block.body, (ir.TensorLoad, look))
        return any(found) or any(region.source.same_as(buffer) for region in self.block.reads)

    @property
    def result(self) -> Any | None:
        """The expression that the nest stores for each place of a buffer, if that is all it does.

        Its axes are those of the buffer, in order.
        """
        store, axes = self.block.body, [var.var for var in self.block.iter_vars]
        if not isinstance(store, tirx.BufferStore) or self.block.init is not None:
            return None
        spatial = all(int(var.iter_type) == 0 for var in self.block.iter_vars)
        return store.value if spatial and _same(store.indices, axes) else None

    @property
    def written(self) -> Any:
        """The buffer that the nest writes first."""
        return self.block.writes[0].source

    def loads(self, value: Any, buffer: Any) -> bool:
        """Whether ``value`` is the element of ``buffer`` at the place that is stored."""
        return is_load(value) and value.source.same_as(buffer) and self.whole(value)

    def whole(self, load: Any) -> bool:
        """Whether ``load`` reads at the place that is stored."""
        return _same(load.indices, [var.var for var in self.block.iter_vars])

    def last(self, load: Any) -> bool:
        """Whether ``load`` reads a vector at the last index of the place that is stored.

        The vector may have axes before it, whose first entry is read.
        """
        *before, last = load.indices
        first = all(isinstance(index, tirx.IntImm) and int(index) == 0 for index in before)
        return first and bool(last.same_as(self.block.iter_vars[-1].var))


def is_load(value: Any) -> bool:
    """Whether an expression is an element of a buffer."""
    return isinstance(value, ir.TensorLoad)


def nests_of(func: tirx.PrimFunc) -> list[Nest] | None:
    """Return the nests of ``func`` in order; None if it is made of anything else."""
    if not isinstance(func.body, s_tir.SBlockRealize):
        return None
    body = func.body.block.body
    statements = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    found = []
    for statement in statements:
        inner = statement
        while isinstance(inner, tirx.For):
            inner = inner.body
        if not isinstance(inner, s_tir.SBlockRealize):
            return None
        found.append(Nest(statement, inner.block))
    return found


def _same(indices: Any, axes: list[Any]) -> bool:
    return len(indices) == len(axes) and all(
        index.same_as(axis) for index, axis in zip(indices, axes, strict=True)
    )
