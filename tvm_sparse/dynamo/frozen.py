"""Weights of a graph as its constants, and whether they have changed since."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from tvm_sparse.dynamo.attributes import make_attribute
from tvm_sparse.frontends.effective import to_numpy

_KEYS = re.compile(r"\._(modules|parameters|buffers)\['([^']*)'\]")


@dataclass(frozen=True)
class Frozen:
    """A graph whose weights are attributes, and whose floating-point numbers are constants.

    Parameters
    ----------
    module
        Takes what is left of the graph's arguments: tensors, and integers that no shape tells.
    weights
        Places of the weights among the graph's arguments.
    inputs
        Places of the module's arguments among the graph's.
    dynamic
        For each of the module's arguments the symbols of its extents by axis.
    """

    module: fx.GraphModule
    weights: tuple[int, ...]
    inputs: tuple[int, ...]
    dynamic: tuple[dict[int, str], ...]


def is_weight(node: fx.Node) -> bool:
    """Whether an argument of a graph is a parameter or buffer of a module."""
    name = _source(node)
    return "._parameters[" in name or "._buffers[" in name


def is_number(node: fx.Node) -> bool:
    """Whether an argument is a floating-point number, which Dynamo passes as a tensor."""
    value = node.meta.get("example_value")
    number = isinstance(value, torch.Tensor) and not value.dim() and value.dtype == torch.float64
    return number and bool(node.users) and all(user.target == "item" for user in node.users)


def freeze(graph: fx.GraphModule, args: Sequence[Any]) -> Frozen:
    """Return ``graph`` with the weights and numbers among ``args`` inside of it."""
    module = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    weights, inputs, dynamic = [], [], []
    nodes = module.graph.find_nodes(op="placeholder")
    sources = graph.graph.find_nodes(op="placeholder")
    _replace_sizes(module.graph, nodes)
    for place, (node, source) in enumerate(zip(nodes, sources, strict=True)):
        if is_weight(source):
            weights.append(place)
            make_attribute(module, node, _name(source, place), args[place])
        elif is_number(source):
            _insert_number(module.graph, node, args[place].item())
        elif node.users or isinstance(args[place], torch.Tensor):
            inputs.append(place)
            dynamic.append(_symbols(node))
        else:
            module.graph.erase_node(node)
    module.recompile()
    return Frozen(module, tuple(weights), tuple(inputs), tuple(dynamic))


def snapshot(tensors: Sequence[torch.Tensor], *, values: bool) -> Callable[[Sequence[Any]], bool]:
    """Return a function that says whether other tensors are these, unchanged.

    ``values`` compares them whole. So are tensors that PyTorch counts no versions of.
    """
    values = values or any(tensor.is_inference() for tensor in tensors)
    # Aliases keep the memory from being used again, so that an address stands for a tensor.
    held = [tensor.detach() for tensor in tensors]
    before = [] if values else [tensor._version for tensor in tensors]
    digest = content(held) if values else ""

    def same(others: Sequence[Any]) -> bool:
        if values or any(other.is_inference() for other in others):
            return values and content(others) == digest
        return all(
            other.data_ptr() == kept.data_ptr() and other._version == version
            for other, kept, version in zip(others, held, before, strict=True)
        )

    return same


def content(tensors: Sequence[torch.Tensor]) -> str:
    """Return a digest of the values of ``tensors``."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(to_numpy(tensor, "weight").tobytes())
    return digest.hexdigest()


def _source(node: fx.Node) -> str:
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def _name(node: fx.Node, place: int) -> str:
    return ".".join(key for _, key in _KEYS.findall(_source(node))) or f"weight_{place}"


def _insert_number(graph: fx.Graph, node: fx.Node, number: float) -> None:
    """Use ``number`` where ``graph`` reads it from the argument ``node``."""
    items = list(node.users)

    def inserted(arg: fx.Node) -> Any:
        return number if arg in items else arg

    for user in [user for item in items for user in item.users]:
        user.args, user.kwargs = map_arg((user.args, user.kwargs), inserted)
    for unused in (*items, node):
        graph.erase_node(unused)


def _replace_sizes(graph: fx.Graph, nodes: Sequence[fx.Node]) -> None:
    """Read numbers that are extents of arguments from these."""
    extents: dict[str, tuple[fx.Node, int]] = {}
    for node in nodes:
        for axis, symbol in _symbols(node).items():
            extents.setdefault(symbol, (node, axis))
    last = nodes[-1] if nodes else None
    for node in nodes:
        symbol = str(node.meta.get("example_value"))
        if isinstance(node.meta.get("example_value"), torch.SymInt) and symbol in extents:
            with graph.inserting_after(last):
                size = graph.call_function(torch.ops.aten.sym_size.int, extents[symbol])
            node.replace_all_uses_with(size)


def _symbols(node: fx.Node) -> dict[int, str]:
    """Return the symbols in the shape of an argument by axis."""
    value = node.meta.get("example_value")
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return {axis: str(e) for axis, e in enumerate(shape) if isinstance(e, torch.SymInt)}
