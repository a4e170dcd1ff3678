"""Products with a weight that are not written as linear layers, which torchao would leave alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn

from tvm_sparse.base.names import holder

_AT = torch.ops.aten
_TURNED = (_AT.t.default, _AT.numpy_T.default)


def linear_products(module: fx.GraphModule) -> None:
    """Make them linear layers, in place.

    before: ``addmm(bias, x, weight)``, ``x @ weight``, ``x @ weight.t()``
    after: ``linear(x, weight, bias)``

    ``Conv1D`` of transformers is the first. The weight is stored transposed, where nothing else
    reads it.
    """
    columns = defaultdict[str, list[fx.Node]](list)
    for node in list(_products(module.graph)):
        right = node.args[-1]
        if right.op == "get_attr":
            columns[right.target].append(node)
        elif right.target in _TURNED and _is_matrix(module, right.args[0]):
            _make_linear(node, right.args[0])
    for name, products in columns.items():
        readers = [
            user
            for read in module.graph.find_nodes(op="get_attr", target=name)
            for user in read.users
        ]
        weight: Any = products[0].args[-1]
        if not _is_matrix(module, weight) or set(readers) != set(products):
            continue
        turned = _value(module, weight).detach().t().contiguous()
        setattr(*holder(module, name), nn.Parameter(turned, requires_grad=False))
        for node in products:
            _make_linear(node, node.args[-1])
    module.recompile()


def _products(graph: fx.Graph) -> Iterator[Any]:
    """Yield products whose right operand comes last, and whose bias is a vector."""
    for target in (_AT.matmul.default, _AT.mm.default, _AT.addmm.default):
        for node in graph.find_nodes(op="call_function", target=target):
            bias = node.args[0].meta["val"].shape if target is _AT.addmm.default else (0,)
            if not node.kwargs and len(bias) == 1 and bias[0] != 1:
                yield node


def _is_matrix(module: fx.GraphModule, node: fx.Node) -> bool:
    return node.op == "get_attr" and _value(module, node).dim() == 2


def _value(module: fx.GraphModule, node: fx.Node) -> Tensor:
    value: Tensor = getattr(*holder(module, str(node.target)))
    return value


def _make_linear(node: fx.Node, weight: Any) -> None:
    *bias, x, _ = node.args
    node.target, node.args = _AT.linear.default, (x, weight, *bias)
