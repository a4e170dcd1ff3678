"""Padding by amounts that follow from open extents."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from tvm import relax, te, tirx

from tvm_sparse.frontends.converters.extents import shape_of
from tvm_sparse.frontends.converters.operators import called, converter, emit


@converter("constant_pad_nd.default", "pad.default")
def _padded(importer: Any, node: torch.fx.Node) -> Any | None:
    """Pad by amounts that follow from open extents."""
    given: Any = node.args[1]
    rest: tuple[Any, ...] = node.args[2:]
    mode = next((a for a in rest if isinstance(a, str)), "constant")
    value = next((a for a in rest if isinstance(a, int | float)), 0.0)
    if all(isinstance(n, int) for n in given) or mode not in ("constant", *_BEYOND):
        return None
    x = importer.env[node.args[0]]
    amounts = [importer.env[n] if isinstance(n, torch.fx.Node) else n for n in given]
    rank = len(x.ty.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(amounts) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = amounts[2 * i : 2 * i + 2]
    axes = [i for i in range(rank) if (before[i], after[i]) != (0, 0)]
    shape = shape_of(importer, node)
    extents = [int(n) if isinstance(n, tirx.IntImm) else n for n in (shape[i] for i in axes)]
    # As operands, so that an extent is one variable of the function.
    operands = extents, [before[i] for i in axes]
    if mode in _BEYOND:
        return called(importer, node, functools.partial(_continued, mode, axes), x, *operands)
    if rank != len(_LAST) or not set(axes) <= {2, 3} or not _has_convolutions(node.graph):
        return called(importer, node, functools.partial(_bordered, value, axes), x, *operands)
    last = emit(importer, relax.op.permute_dims(x, _LAST))
    padded = called(
        importer, node, functools.partial(_bordered, value, [i - 1 for i in axes]), last, *operands
    )
    return emit(importer, relax.op.permute_dims(padded, _FIRST))


_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders of axes: with channels last, as convolutions will have them, and back."""


_BEYOND: dict[str, Callable[[Any, Any], Any]] = {
    "reflect": lambda place, extent: tirx.Select(
        place < 0, -place, tirx.Select(place < extent, place, 2 * extent - 2 - place)
    ),
    "replicate": lambda place, _: place,
    "circular": lambda place, extent: tirx.Select(
        place < 0, place + extent, tirx.Select(place < extent, place, place - extent)
    ),
}
"""By mode: the place of the element that continues an axis; what is outside is its end's."""


def _continued(
    mode: str, axes: list[int], x: te.Tensor, extents: list[Any], before: list[Any]
) -> te.Tensor:
    """Return ``x`` with elements of its own on both sides of ``axes``, which have ``extents``."""
    shape, first = [*x.shape], [0] * len(x.shape)
    for axis, extent, amount in zip(axes, extents, before, strict=True):
        shape[axis], first[axis] = extent, amount

    def at(*index: Any) -> Any:
        places = [*index]
        for axis in axes:
            extent = tirx.Cast("int64", x.shape[axis])
            place = _BEYOND[mode](tirx.Cast("int64", index[axis] - first[axis]), extent)
            places[axis] = tirx.max(0, tirx.min(place, extent - 1))
        return x(*places)

    return te.compute(shape, at, name="pad")


def _has_convolutions(graph: torch.fx.Graph) -> bool:
    return any("conv" in str(node.target) for node in graph.nodes if node.op == "call_function")


def _bordered(
    value: float, axes: list[int], x: te.Tensor, extents: list[Any], before: list[Any]
) -> te.Tensor:
    """Return ``x`` between elements ``value``: its ``axes`` have ``extents`` then.

    These are sums in the form that PyTorch knows: ``(h + 1) // 2 * 2 + 1`` of a plane of ``h`` rows
    between two halves of an amount. TVM compares extents by their form when it fuses functions.
    """
    shape, first = [*x.shape], [0] * len(x.shape)
    for axis, extent, amount in zip(axes, extents, before, strict=True):
        shape[axis], first[axis] = extent, amount

    def at(*index: Any) -> Any:
        places = [i - begin for i, begin in zip(index, first, strict=True)]
        pairs = [*zip(places, x.shape, strict=True)]
        inside = tirx.all(*(tirx.all(p >= 0, p < extent) for p, extent in pairs))
        return tirx.if_then_else(inside, x(*places), tirx.const(value, x.dtype))

    return te.compute(shape, at, name="pad")
