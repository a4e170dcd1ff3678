"""Which operators of a program can be compiled, asked of the importer one by one."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import SparseError
from tvm_sparse.frontends.program.exported import from_exported
from tvm_sparse.frontends.quiet import quiet


class Support:
    """Says why an operator cannot be compiled; equal uses are asked once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def refusal(self, node: fx.Node) -> str:
        """Return the reason in a sentence, empty if ``node`` can be compiled."""
        values = [_value(arg) for arg in node.all_input_nodes]
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return "has graphs of its own (control flow)"
        if not isinstance(node.target, torch._ops.OpOverload):
            return ""  # a part of what an operator returns
        if any(not isinstance(value, torch.Tensor) for value in (*values, *_leaves(_value(node)))):
            return "takes or returns something other than tensors"
        key = f"{node.target} {node.args} {node.kwargs}"
        for arg, value in zip(node.all_input_nodes, values, strict=True):
            key = key.replace(arg.name, f"{value.dtype}{tuple(value.shape)}")
        if key not in self._known:
            self._known[key] = _refused(node, values)
        return self._known[key]


def told(error: Exception) -> str:
    """Return what an error of the compiler says, of any other what a user understands."""
    if isinstance(error, SparseError):
        return str(error)
    return f"cannot be compiled{aside(said(error))}"


def _value(node: fx.Node) -> Any:
    return node.meta.get("val")


def _leaves(value: Any) -> list[Any]:
    return pytree.tree_leaves(value)


def _refused(node: fx.Node, values: list[Any]) -> str:
    """Import a program of this operator alone and return the importer's error."""
    graph = fx.Graph()
    copies = {arg: graph.placeholder(f"x{i}") for i, arg in enumerate(node.all_input_nodes)}
    target: Any = node.target
    call = graph.call_function(
        target,
        map_arg(node.args, copies.__getitem__),
        map_arg(node.kwargs, copies.__getitem__),
    )
    found = _value(node)
    count = len(found) if isinstance(found, (tuple, list)) else 0
    parts = [graph.call_function(operator.getitem, (call, i)) for i in range(count)]
    graph.output(tuple(parts) or (call,))
    inputs = tuple(
        torch.zeros([int(e) for e in value.shape], dtype=value.dtype) for value in values
    )
    try:
        with quiet(), torch.no_grad():
            from_exported(torch.export.export(fx.GraphModule({}, graph), inputs))
    except Exception as error:  # whatever the reason, PyTorch can run it
        return told(error)
    return ""
