"""Weights of a graph as its constants, and what stays open."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

from tvm_sparse.dynamo.attributes import make_attribute
from tvm_sparse.dynamo.devices import move_to_host, on_host

_KEYS = re.compile(r"\._(modules|parameters|buffers)\['([^']*)'\]")

Bounds = dict[str, dict[str, int]]
"""What each symbol may be at least (``min``) and at most (``max``), by its name."""


@dataclass(frozen=True)
class Frozen:
    """A graph on the host: its weights are attributes, its floating-point numbers constants.

    Parameters
    ----------
    module
        Takes what is left of the graph's arguments: tensors, and integers that no shape tells.
    weights
        Places of the weights among the graph's arguments.
    inputs
        Places of the module's arguments among the graph's.
    dynamic
        For each of the module's arguments the symbols of its open extents by axis.
    bounds
        What Dynamo limits the symbols to.
    """

    module: fx.GraphModule
    weights: tuple[int, ...]
    inputs: tuple[int, ...]
    dynamic: tuple[dict[int, str], ...]
    bounds: Bounds

    def bounds_from(self, least: float, inputs: Sequence[Any]) -> Bounds:
        """Return the bounds with ``least`` or the extents of ``inputs``, if less, as the least."""
        found = {symbol: dict(limits) for symbol, limits in self.bounds.items()}
        for tensor, axes in zip(inputs, self.dynamic, strict=True):
            for axis, symbol in axes.items():
                limits = found.get(symbol, {})
                limits["min"] = max(limits.get("min", 0), int(min(least, tensor.shape[axis])))
        return found

    def open_shapes(self, bounds: Bounds) -> tuple[Any, ...]:
        """Return the dynamic shapes of the arguments as :func:`torch.export.export` takes them.

        Raises
        ------
        KeyError
            An extent is no symbol but an expression of some.
        """
        dims = {symbol: torch.export.Dim(symbol, **limits) for symbol, limits in bounds.items()}
        return tuple(
            {axis: dims[symbol] for axis, symbol in axes.items()} or None for axes in self.dynamic
        )

    def limits(self, bounds: Bounds) -> list[tuple[int, int, int, float]]:
        """Return place, axis, least and most of each open extent of the graph's arguments."""
        return [
            (place, axis, bounds[symbol].get("min", 0), bounds[symbol].get("max", math.inf))
            for place, axes in zip(self.inputs, self.dynamic, strict=True)
            for axis, symbol in axes.items()
        ]


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
    """Return ``graph`` on the host, with the weights and numbers among ``args`` inside of it."""
    module = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    move_to_host(module.graph)
    weights, inputs, dynamic = [], [], []
    nodes = module.graph.find_nodes(op="placeholder")
    sources = graph.graph.find_nodes(op="placeholder")
    _replace_sizes(module.graph, nodes)
    for place, (node, source) in enumerate(zip(nodes, sources, strict=True)):
        if is_weight(source):
            weights.append(place)
            make_attribute(module, node, _name(source, place), on_host(args[place]))
        elif is_number(source):
            _insert_number(module.graph, node, args[place].item())
        elif node.users or isinstance(args[place], torch.Tensor):
            inputs.append(place)
            dynamic.append(_symbols(node))
        else:
            module.graph.erase_node(node)
    module.recompile()
    return Frozen(module, tuple(weights), tuple(inputs), tuple(dynamic), _bounds(sources))


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
    return {axis: str(e) for axis, e in enumerate(shape) if _is_open(e)}


def _bounds(nodes: Sequence[fx.Node]) -> Bounds:
    """Return what Dynamo found the symbols in the shapes of arguments to be limited to."""
    found: Bounds = {}
    for extent in (e for node in nodes for e in _open_extents(node)):
        if extent.node.expr.is_symbol:
            limits = extent.node.shape_env.bound_sympy(extent.node.expr)
            pairs = (("min", limits.lower), ("max", limits.upper))
            found[str(extent)] = {name: int(limit) for name, limit in pairs if limit.is_Integer}
    return found


def _open_extents(node: fx.Node) -> list[torch.SymInt]:
    value = node.meta.get("example_value")
    shape: tuple[Any, ...] = value.shape if isinstance(value, torch.Tensor) else ()
    return [extent for extent in shape if _is_open(extent)]


def _is_open(extent: Any) -> bool:
    """Whether an extent is a symbol still; with ``dynamic=True`` some turn out to be none."""
    return isinstance(extent, torch.SymInt) and not extent.node.expr.is_number
