"""Slices of open extents: where PyTorch knows that they lie within, so does the program."""

from __future__ import annotations

import sys
from typing import Any

import torch
from tvm import relax

from tvm_sparse.frontends.converters.operators import converter, emit


@converter("slice.Tensor")
def _slice(importer: Any, node: torch.fx.Node) -> Any | None:
    """Name the extent as PyTorch does, where that is the distance between the two ends.

    TVM's converter clamps both ends to the extent of the operand, and what it makes of open ones
    equals no other extent. It is right for tensors of fixed extents.
    """
    source: Any = node.args[0]
    given: list[Any] = [*node.args[1:], *(0, None, None, 1)[len(node.args) - 1 :]]
    axis, start, end, step = given
    shape = source.meta["val"].shape
    if not any(isinstance(extent, torch.SymInt) for extent in (*shape, *node.meta["val"].shape)):
        return None
    x = importer.env[source]
    axis %= len(shape)  # TVM counts axes of open extents from the first
    first, low = _end(importer, start or 0, shape[axis], x.ty.shape[axis])
    last, high = _end(importer, sys.maxsize if end is None else end, shape[axis], x.ty.shape[axis])
    within = step == 1 and _equal(node.meta["val"].shape[axis], last - first)
    call = relax.op.strided_slice(x, [axis], [low], [high], [step], assume_inbound=within)
    return emit(importer, call)


def _equal(one: Any, other: Any) -> bool:
    """Whether two extents are the same in every case."""
    difference = one - other
    return bool(getattr(getattr(difference, "node", None), "expr", difference) == 0)


def _end(importer: Any, given: Any, extent: Any, whole: Any) -> tuple[Any, Any]:
    """Return one end of a slice as PyTorch knows it, and as the program does.

    ``extent`` is that of the operand in PyTorch, ``whole`` in the program.
    """
    if isinstance(given, torch.fx.Node):
        end, own = given.meta["val"], importer.env[given]
        return (extent + end, whole + own) if end < 0 else (end, own)
    if given == sys.maxsize:
        return extent, whole
    return (extent + given, whole + given) if given < 0 else (given, given)
