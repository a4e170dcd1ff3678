"""Padding by amounts that follow from open extents."""

from __future__ import annotations

import functools
from typing import Any

import torch
from tvm import te, tirx
from tvm.sym import Analyzer

from tvm_sparse.frontends.converters.extents import bounds
from tvm_sparse.frontends.converters.operators import called, converter


@converter("constant_pad_nd.default", "pad.default")
def _padded(importer: Any, node: torch.fx.Node) -> Any | None:
    """Pad by amounts that follow from open extents."""
    given: Any = node.args[1]
    rest: tuple[Any, ...] = node.args[2:]
    mode = next((a for a in rest if isinstance(a, str)), "constant")
    value = next((a for a in rest if isinstance(a, int | float)), 0.0)
    if mode != "constant" or all(isinstance(n, int) for n in given):
        return None
    x = importer.env[node.args[0]]
    amounts = [importer.env[n] if isinstance(n, torch.fx.Node) else n for n in given]
    rank = len(x.ty.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(amounts) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = amounts[2 * i : 2 * i + 2]
    sides = [*zip(before, x.ty.shape, after, strict=True)]
    sums = [bounds(importer, node).simplify(tirx.const(0, "int64") + sum(s)) for s in sides]
    known = [int(n) if isinstance(n, tirx.IntImm) else None for n in sums]
    # As operands, so that an extent is one variable of the function.
    return called(importer, node, functools.partial(_bordered, value, known), x, before, after)


def _bordered(
    value: float, known: list[int | None], x: te.Tensor, before: list[Any], after: list[Any]
) -> te.Tensor:
    """Return ``x`` between elements ``value``, of extents that are ``known`` or simplified.

    Those of a call's result are simple, too: ``max(n, 256)`` of a length ``n + max(256 - n, 0)``.
    TVM compares them by their form when it fuses functions.
    """
    simplify = Analyzer().simplify
    sides = [*zip(before, x.shape, after, strict=True)]
    sums = [simplify(tirx.const(0, "int64") + sum(parts)) for parts in sides]
    shape = [simple if n is None else n for n, simple in zip(known, sums, strict=True)]

    def at(*index: Any) -> Any:
        places = [i - first for i, (first, _, _) in zip(index, sides, strict=True)]
        pairs = [*zip(places, x.shape, strict=True)]
        inside = tirx.all(*(tirx.all(p >= 0, p < extent) for p, extent in pairs))
        return tirx.if_then_else(inside, x(*places), tirx.const(value, x.dtype))

    return te.compute(shape, at, name="pad")
