"""The layers of a module that an exporter wrote, whatever their weights are computed from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, fx

from tvm_sparse.base.names import holder, layer_of
from tvm_sparse.frontends.modules.effective import to_numpy
from tvm_sparse.frontends.modules.layer_types import conv_type, linear_type
from tvm_sparse.frontends.modules.layers import LayerWeight, outputs_first

QUANTIZED = ("quantized_decomposed", "torchao")
"""Namespaces of the operators between floats and integers."""

_TRANSPOSED = "conv_transpose"
_PRODUCT = "_int_mm"
"""What torchao makes of a linear layer: its right operand has features last."""


def is_quantized(module: Any) -> bool:
    """Whether ``module`` is a graph with operators between floats and integers."""
    if not isinstance(module, fx.GraphModule):
        return False
    return any(getattr(n.target, "namespace", "") in QUANTIZED for n in module.graph.nodes)


def quantized_layers(module: fx.GraphModule) -> list[LayerWeight]:
    """Return the layers of ``module`` in the order of the graph; nothing is computed yet.

    A layer has the name of its weight, or of the module that it was traced in where an exporter
    gave its weight a name of its own.
    """
    found: dict[fx.Node, LayerWeight] = {}
    for node in module.graph.nodes:
        operator = getattr(node.target, "__name__", "").partition(".")[0]
        if operator not in ("linear", _PRODUCT) and not operator.startswith("conv"):
            continue
        weight = node.args[1]
        stored = next(_stored(weight), None) if isinstance(weight, fx.Node) else None
        if stored is not None and weight not in found:
            found[weight] = _layer(module, node, weight, stored, operator)
    return list(found.values())


def _stored(weight: fx.Node) -> Iterator[fx.Node]:
    """Yield the stored tensors that a weight is computed from; none if it is no constant."""
    if weight.op == "get_attr":
        yield weight
    elif weight.op == "call_function":
        for source in weight.all_input_nodes:
            yield from _stored(source)


def _layer(
    module: fx.GraphModule, node: fx.Node, weight: fx.Node, stored: fx.Node, operator: str
) -> LayerWeight:
    value = _value(module, stored)
    groups = int(_argument(node, "groups") or 1)
    transposed = operator.startswith(_TRANSPOSED) or bool(_argument(node, "transposed"))
    name = str(stored.target)
    place = traced_in(node)
    if name.startswith("_") and place:
        name = f"{place}.weight"
    inputs = value.shape[0] if transposed else value.shape[1] * groups
    dims = value.dim() - 2
    kind = conv_type(dims, groups, inputs, transposed=transposed) if dims else linear_type(name)

    def read() -> np.ndarray:
        whole = to_numpy(_value(module, weight), name)
        if operator == _PRODUCT:
            return whole.T
        return outputs_first(whole, groups) if transposed else whole

    return LayerWeight(layer_of(name), name, kind, read)


def traced_in(node: fx.Node) -> str:
    """Return the name of the module that ``node`` was traced in."""
    return next(reversed(modules_of(node)), "")


def modules_of(node: fx.Node) -> list[str]:
    """Return the names of all modules around ``node``, the innermost last."""
    stack = node.meta.get("nn_module_stack") or {}
    return [str(name) for name, _ in stack.values()]


def _argument(node: fx.Node, name: str) -> Any:
    """Return the argument ``name`` of an operator, ``None`` where it is left out."""
    if name in node.kwargs:
        return node.kwargs[name]
    schema = cast("Any", node.target)._schema
    names = [argument.name for argument in schema.arguments]
    place = names.index(name) if name in names else len(node.args)
    return node.args[place] if place < len(node.args) else None


def _value(module: fx.GraphModule, node: fx.Node) -> Tensor:
    """Return the value of a node that only stored tensors count for."""
    if node.op == "get_attr":
        return cast("Tensor", getattr(*holder(module, str(node.target))))
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: _value(module, n))
    with torch.no_grad():
        return cast("Tensor", cast("Any", node.target)(*args, **kwargs))
