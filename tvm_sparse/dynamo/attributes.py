"""Tensors as attributes of a graph's module, under dotted names."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from tvm_sparse.base.names import holder


def attribute(module: nn.Module, name: str) -> Any:
    """Return what ``module`` has under a dotted name."""
    return getattr(*holder(module, name))


def make_attribute(module: fx.GraphModule, node: fx.Node, name: str, value: torch.Tensor) -> str:
    """Make an argument of ``module`` its attribute and return the name: ``name`` if free."""
    owner: nn.Module = module
    *path, last = name.split(".")
    for part in path:
        if not isinstance(getattr(owner, part, None), nn.Module):
            owner.add_module(part, nn.Module())
        owner = getattr(owner, part)
    while hasattr(owner, last):
        last += "_"
    if isinstance(value, nn.Parameter):
        owner.register_parameter(last, value)
    else:
        owner.register_buffer(last, value)
    with module.graph.inserting_before(node):
        taken = ".".join([*path, last])
        found = module.graph.get_attr(taken)
    found.meta.update(node.meta)
    node.replace_all_uses_with(found)
    module.graph.erase_node(node)
    return taken
