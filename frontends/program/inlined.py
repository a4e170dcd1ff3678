"""Graphs inside of a graph, written into it: branches, and blocks that only set a mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.frontends.program.copied import copied

aten = torch.ops.aten

_BLOCKS = {"wrap_with_set_grad_enabled": 2, "invoke_subgraph": 2}
"""Operators that call a graph, and how many arguments come before its own."""


def without_inner_graphs(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with the branches of ``torch.cond`` computed, and one of them chosen.

    before: ``y = cond(p, f, g, [x])`` --> after: ``y = where(p, f(x), g(x))``
    """
    if not any(map(_called, program.graph.nodes)):
        return program
    result, owner = copied(program), program.graph_module
    graph = result.graph
    while calls := [node for node in graph.nodes if _called(node)]:
        for node in calls:
            _inline(owner, node, _called(node))
        graph.eliminate_dead_code()
    result.graph_module.recompile()
    return result


def _called(node: fx.Node) -> str:
    """Return the name of the operator by which ``node`` calls a graph, if it does."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
        return ""
    name = str(node.target.__name__)
    return name if name == "cond" or name in _BLOCKS else ""


def _inline(owner: fx.GraphModule, node: fx.Node, name: str) -> None:
    if name != "cond":
        skip = _BLOCKS[name]
        inner = next(a for a in node.args[:skip] if isinstance(a, fx.Node))
        _replace(node, _copied(owner, node, inner, node.args[skip:]))
        return
    condition, yes, no, *rest = node.args
    operands: Any = rest[0] if rest else ()
    if not isinstance(condition, fx.Node):
        _replace(node, _copied(owner, node, yes if condition else no, operands))
        return
    found, other = (_copied(owner, node, branch, operands, condition) for branch in (yes, no))
    _replace(node, [_chosen(node, condition, a, b) for a, b in zip(found, other, strict=True)])


def _copied(
    owner: fx.GraphModule, node: fx.Node, inner: Any, operands: Any, condition: Any = None
) -> list[Any]:
    """Write the graph ``inner`` before ``node`` and return what it returns."""
    module = owner.get_submodule(str(inner.target))
    assert isinstance(module, fx.GraphModule)
    given = dict(zip(module.graph.find_nodes(op="placeholder"), operands, strict=True))
    with node.graph.inserting_before(node):
        for part in module.graph.nodes:
            if part.op in ("call_function", "get_attr"):
                given[part] = node.graph.node_copy(part, given.__getitem__)
            if part.op == "get_attr":
                given[part].target = f"{inner.target}.{part.target}"
    if condition is not None and any(map(_asserts, module.graph.nodes)):
        raise UnsupportedError(
            layer_of(node), "asserts something in a branch", "branches that only compute"
        )
    (returned,) = module.graph.output_node().args
    return [given.get(leaf, leaf) for leaf in pytree.tree_leaves(returned)]


def _asserts(node: fx.Node) -> bool:
    return node.target in (aten._assert_async.msg, aten._assert_async.default)


def _chosen(node: fx.Node, condition: fx.Node, yes: Any, no: Any) -> fx.Node:
    """Return one of two tensors of equal shape."""
    values = [part.meta["val"] for part in (yes, no)]
    if values[0].shape != values[1].shape:
        raise UnsupportedError(
            layer_of(node), "has branches that give tensors of different shapes", "equal shapes"
        )
    with node.graph.inserting_before(node):
        made = node.graph.call_function(aten.where.self, (condition, yes, no))
    made.meta = {"nn_module_stack": node.meta.get("nn_module_stack"), "val": values[0]}
    return made


def _replace(node: fx.Node, results: list[Any]) -> None:
    """Let the users of ``node``, which take parts of its results, take ``results``."""
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])  # type: ignore[index]
        node.graph.erase_node(user)
    node.graph.erase_node(node)
