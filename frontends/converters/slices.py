"""Slices of open extents: their ends lie within, in the form that the ranges of these allow."""

from __future__ import annotations

import sys
from typing import Any

import torch
from tvm import relax, tirx

from tvm_sparse.frontends.converters.extents import bounds
from tvm_sparse.frontends.converters.operators import converter, emit
from tvm_sparse.passes.graph.known_extents import KnownExtents


@converter("slice.Tensor")
def _slice(importer: Any, node: torch.fx.Node) -> Any | None:
    """Cut between ends that lie within the axis, as far as its range tells in their simple form.

    TVM's converter clamps both ends to the extent of the operand, and what it makes of open ones
    equals no other extent: an end below zero counts from the last element once more. It is right
    for tensors of fixed extents.
    """
    source: Any = node.args[0]
    given: list[Any] = [*node.args[1:], *(0, None, None, 1)[len(node.args) - 1 :]]
    axis, start, end, step = given
    shape = source.meta["val"].shape
    if not any(isinstance(extent, torch.SymInt) for extent in (*shape, *node.meta["val"].shape)):
        return None
    x = importer.env[source]
    axis %= len(shape)  # TVM counts axes of open extents from the first
    known, whole = bounds(importer, node), x.ty.shape[axis]
    low = _inside(known, _end(importer, start or 0, whole), 0, whole)
    high = _end(importer, sys.maxsize if end is None else end, whole)
    high = _inside(known, high, low, whole)
    call = relax.op.strided_slice(x, [axis], [low], [high], [step], assume_inbound=True)
    return emit(importer, call)


def _inside(known: KnownExtents, end: Any, least: Any, most: Any) -> Any:
    """Return an end, or the closest one from ``least`` to ``most``."""
    zero = tirx.const(0, "int64")
    return known.simplify(tirx.min(tirx.max(end + zero, least + zero), most + zero))


def _end(importer: Any, given: Any, whole: Any) -> Any:
    """Return one end of a slice, which may lie outside; a negative one counts from the last."""
    if isinstance(given, torch.fx.Node):
        end, own = given.meta["val"], importer.env[given]
        return whole + own if end < 0 else own
    if given == sys.maxsize:
        return whole
    return whole + given if given < 0 else given
