"""What multipliers are given, and where they put their sums."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol

from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.marks import int64


class Steps(Protocol):
    """Which steps of the reduction a block has."""

    def multiplied(self, block: Any, k: Any) -> Any:
        """Return whether a step is multiplied, the same for all of its columns; None: it is."""

    def counted(self, block: Any) -> list[Any]:
        """Return what :meth:`multiplied` reads."""


@dataclass(frozen=True)
class Right:
    """The staged weights: ``[block, feature, k]`` if ``features_first``, else ``[block, k, f]``.

    With ``apart > 1`` features are ``[block, feature % apart, feature // apart, k]``. Weights of a
    batch have ``each`` blocks an item, others none.
    """

    buffer: Any
    features_first: bool
    apart: int
    steps: Steps
    each: Any = None

    def at(self, block: Any, k: Any, feature: Any) -> Any:
        """Return one element, or a region where features are not apart."""
        if self.apart > 1:
            return self.buffer[block, feature % self.apart, feature // self.apart, k]
        place = (block, feature, k) if self.features_first else (block, k, feature)
        return self.buffer[place]


@dataclass(frozen=True)
class Taken:
    """What is multiplied of a reduction in tiles of ``columns``: some steps, or all."""

    steps: Steps | None
    columns: int

    def reads(self, block: Any) -> list[Any]:
        """Return what :meth:`only` reads."""
        return self.steps.counted(block) if self.steps else []

    def only(self, block: Any, k: Any) -> contextlib.AbstractContextManager[Any]:
        """Return what a statement is emitted in that belongs to tile ``k``."""
        condition = self.steps.multiplied(block, k * self.columns) if self.steps else None
        if condition is None:
            return contextlib.nullcontext()
        stack = contextlib.ExitStack()
        stack.enter_context(T.If(condition))
        stack.enter_context(T.Then())
        return stack


@dataclass(frozen=True)
class Sums:
    """Where a product is: ``[row, block * features + feature]``.

    With ``each`` blocks an item it is ``[item, row, feature of the item]``.
    """

    features: int
    each: Any = None

    def alloc(self, rows: Any, blocks: Any, dtype: str) -> Any:
        """Emit the buffer."""
        if self.each is None:
            return T.sblock_alloc_buffer([rows, blocks * self.features], dtype)
        shape = [blocks // self.each, rows, *int64((self.each * self.features,))]
        return T.sblock_alloc_buffer(shape, dtype)

    def item(self, block: Any) -> tuple[list[Any], Any]:
        """Return the item of a block, if there are items, and the block's number in it."""
        return ([], block) if self.each is None else ([block // self.each], block % self.each)
