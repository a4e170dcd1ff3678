"""Operators that write into a tensor which nothing else sees, as operators with a new result."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from tvm_sparse.frontends.program.copied import copied

aten = torch.ops.aten

_NEW = {
    *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.conv2d.padding),
    *(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input),
    *(aten.batch_norm.default, aten.group_norm.default, aten.layer_norm.default),
    *(aten.linear.default, aten.matmul.default, aten.silu.default),
}
"""Composite operators whose result is always a new tensor; that of others may be their operand."""


def without_writes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with new results for writes into a tensor that has no other name.

    before: ``y = batch_norm(x); z = relu_(y)`` --> after: ``y = batch_norm(x); z = relu(y)``

    A program that writes nothing is taken apart operator by operator, in a fraction of the time.
    """
    if not any(map(_is_write, program.graph.nodes)):
        return program
    result = copied(program)
    places = {node: place for place, node in enumerate(result.graph.nodes)}
    for node in filter(_is_write, list(result.graph.nodes)):
        target = _pure(node)
        if target is None or not _is_alone(node, places):
            continue
        source: Any = node.args[0]
        later = [user for user in source.users if places[user] > places[node]]
        for user in later:
            user.replace_input_with(source, node)
        node.target = target
    result.graph_module.recompile()
    return result


def _is_write(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _pure(node: fx.Node) -> OpOverload | None:
    """Return the operator without a write of what ``node`` computes, of one type of elements."""
    writes: Any = node.target
    name, overload = str(writes._schema.name), writes._overloadname
    packet = getattr(aten, name.removeprefix("aten::").removesuffix("_"), None)
    pure = getattr(packet, overload, None) if name.endswith("_") else None
    if not isinstance(pure, OpOverload) or pure._schema.is_mutable:
        return None
    own, other = writes._schema.arguments, pure._schema.arguments
    values = [n.meta.get("val") for n in node.all_input_nodes]
    types = {value.dtype for value in values if isinstance(value, torch.Tensor)}
    floating = all(dtype.is_floating_point for dtype in types)
    same = [(a.name, str(a.type)) for a in own] == [(a.name, str(a.type)) for a in other]
    return pure if same and floating and len(types) == 1 else None


def _is_alone(node: fx.Node, places: dict[fx.Node, int]) -> bool:
    """Whether what ``node`` writes into is a new tensor, which nothing sees by another name."""
    source = node.args[0]
    if not isinstance(source, fx.Node) or not _is_new(source):
        return False
    before = (user for user in source.users if places[user] < places[node])
    return all(map(_is_new, before))


def _is_new(node: fx.Node) -> bool:
    """Whether the results of ``node`` share no memory with its operands."""
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten":
        return False
    if node.target in _NEW:
        return True
    composite = node.target._can_decompose()
    shared = any(result.alias_info is not None for result in node.target._schema.returns)
    return not (composite or shared or node.target._schema.is_mutable)
