"""Operands of mixed types get the type that PyTorch computes in: TVM's converters do not cast."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

aten = torch.ops.aten

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_KEPT = {"where", "_to_copy", "clone", "isnan", "isinf", "embedding", "index_put"}
"""Element-wise operators whose operands have types of their own, or any."""

_FILLED = {aten.full.default, aten.full_like.default}
_UNSIGNED = {torch.uint8, torch.uint16, torch.uint32, torch.uint64}

_MEANS = {"mean", "var", "std", "_softmax", "_log_softmax", "logsumexp"}
"""Further operators that compute in the type of their result."""


def fill_empty(program: torch.export.ExportedProgram) -> None:
    """Let what has no elements, whatever made it, be made by ``full`` in ``program``."""
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        if any(not isinstance(extent, int) for extent in value.shape) or value.numel():
            continue
        node.target, node.kwargs = aten.full.default, {"dtype": value.dtype}
        node.args = (list(value.shape), 0)
    # TVM may have no loops for what they read: it splits nothing into several empty parts.
    program.graph.eliminate_dead_code()


def promote_operands(program: torch.export.ExportedProgram) -> None:
    """Insert casts in ``program``, which is ours, before operators that would have them inside."""
    for node in list(program.graph.nodes):
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            wanted = _computed_in(node)
            if wanted is not None:
                node.args = cast_arguments(node, wanted)
            node.args = _wrapped(node)


def _computed_in(node: Any) -> torch.dtype | None:
    """Return the type that the tensors among the arguments of ``node`` must have, if one."""
    name, value = node.target.__name__.partition(".")[0], node.meta.get("val")
    dtypes = {dtype for a in node.args if (dtype := dtype_of(a)) is not None}
    if name in _COMPARISONS:
        fakes = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args[:2]]
        return torch.result_type(*fakes)
    pointwise = torch.Tag.pointwise in node.target.tags and name not in _KEPT
    if not isinstance(value, torch.Tensor) or not (pointwise or name in _MEANS):
        return None
    other = bool(dtypes) and dtypes != {value.dtype}
    mixed = len(dtypes) > 1 or (other and (value.is_floating_point() or dtypes == {torch.bool}))
    return value.dtype if mixed and value.dtype != torch.bool else None


def _wrapped(node: Any) -> tuple[Any, ...]:
    """Return the arguments of ``node``, negative numbers beside unsigned ones within their range.

    PyTorch takes them modulo that range; constants of TVM refuse them.
    """
    dtypes = {dtype for a in node.args if (dtype := dtype_of(a)) is not None}
    if node.target in _FILLED:
        dtypes = {dtype_of(node) or torch.int64}
    elif torch.Tag.pointwise not in node.target.tags:
        return tuple(node.args)
    if len(dtypes) != 1 or not dtypes <= _UNSIGNED:
        return tuple(node.args)
    size = torch.iinfo(*dtypes).max + 1
    return tuple(a % size if isinstance(a, int) and a < 0 else a for a in node.args)


def dtype_of(argument: Any) -> torch.dtype | None:
    """Return the type of the tensor that an argument of a node stands for, if it is one."""
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


def cast_arguments(
    node: torch.fx.Node, dtype: torch.dtype, only: Collection[torch.dtype] | None = None
) -> tuple[Any, ...]:
    """Return the arguments of ``node`` with its tensors, ``only`` those of some types, cast."""
    return tuple(
        a
        if (held := dtype_of(a)) is None or (only is not None and held not in only)
        else _cast(node, a, dtype)
        for a in node.args
    )


def _cast(node: torch.fx.Node, argument: Any, dtype: torch.dtype) -> Any:
    """Return ``argument`` of ``node`` in ``dtype``."""
    if argument.meta["val"].dtype == dtype:
        return argument
    with node.graph.inserting_before(node):
        cast = node.graph.call_function(aten._to_copy.default, (argument,), {"dtype": dtype})
    cast.meta = {
        "nn_module_stack": node.meta.get("nn_module_stack"),
        "val": argument.meta["val"].to(dtype),
    }
    return cast
