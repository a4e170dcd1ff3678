"""Converters of what is computed with open extents: their arithmetic, and tensors made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tvm import relax, tirx, topi

from tvm_sparse.frontends.operators import called, converter, dtype_of, emit


@converter("sym_max")
def _larger(importer: Any, node: torch.fx.Node) -> Any:
    return _chosen(importer, node, tirx.max, max)


@converter("sym_min")
def _smaller(importer: Any, node: torch.fx.Node) -> Any:
    return _chosen(importer, node, tirx.min, min)


@converter("neg")
def _negated(importer: Any, node: torch.fx.Node) -> Any:
    return -importer.retrieve_args(node)[0] if isinstance(node.meta["val"], torch.SymInt) else None


def _chosen(
    importer: Any, node: torch.fx.Node, symbolic: Callable[..., Any], known: Callable[..., Any]
) -> Any:
    a, b = importer.retrieve_args(node)
    return known(a, b) if isinstance(a, int) and isinstance(b, int) else symbolic(a, b)


@converter("scalar_tensor.default", "full.default")
def _tensor_of_extent(importer: Any, node: torch.fx.Node) -> Any | None:
    """Return a tensor that holds an extent: a range of one step, spread over the shape."""
    given: Any = node.args[-1]
    if not isinstance(getattr(given, "meta", {}).get("val"), torch.SymInt):
        return None
    value = importer.env[given]
    one = emit(importer, relax.op.arange(value, value + 1, 1, dtype="int64"))
    one = emit(importer, relax.op.astype(one, dtype_of(node)))
    wanted: Any = () if node.target is torch.ops.aten.scalar_tensor.default else node.args[0]
    shape = [importer.env[n] if isinstance(n, torch.fx.Node) else n for n in wanted]
    if not shape:
        return emit(importer, relax.op.reshape(one, ()))
    return emit(importer, relax.op.broadcast_to(one, shape))


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
    return called(importer, node, lambda x: topi.nn.pad(x, before, after, value), x)
