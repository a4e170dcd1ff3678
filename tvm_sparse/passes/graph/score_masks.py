"""What a model does to scores of attention: it adds a mask, or puts a number in their place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, shape_of


@dataclass(frozen=True)
class Mask:
    """What is added to scores, if there is no ``number``, which stands in their place otherwise.

    ``tensor`` is what is added, or the condition that chooses: the number stands where it is
    ``where``.
    """

    tensor: Any
    number: float = 0.0
    where: bool = True

    def operand(self, rewriter: Rewriter, dtype: str) -> Any:
        """Return what a kernel adds to scores; or takes in their place, where it is not zero."""
        if not self.number:
            return self.tensor
        number, zero = (relax.const(np.array(x, "float64"), dtype) for x in (self.number, 0))
        values = (number, zero) if self.where else (zero, number)
        return rewriter.emit(relax.op.where(self.tensor, *values))


def masks(rewriter: Rewriter, scores: Any) -> Iterator[tuple[Any, Mask]]:
    """Yield what ``scores`` may be made of: those before, and the mask."""
    call = rewriter.resolve(scores)
    if op_name(call) == "add":
        first, second = call.args
        yield first, Mask(second)
        yield second, Mask(first)
    if op_name(call) == "where":
        condition, yes, no = call.args
        for own, other, where in ((no, yes, True), (yes, no, False)):
            number = number_of(rewriter, other)
            if number and not math.isnan(number):  # zero says that nothing is in their place
                yield own, Mask(condition, number, where)


def number_of(rewriter: Rewriter, expr: Any) -> float | None:
    """Return the number that a tensor without axes holds."""
    if shape_of(expr):
        return None
    call = rewriter.resolve(expr)
    known = rewriter.constant(call.args[1] if op_name(call) == "full" else expr)
    return None if known is None else float(array_of(known))
