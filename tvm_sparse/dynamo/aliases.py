"""Results of a program that share memory with its arguments, or with each other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import fx


def shared_views(graph: fx.Graph) -> set[fx.Node]:
    """Return the views that PyTorch must compute, so that results share memory as they should.

    These lead from an argument to a result, or from one value to several results.
    """
    returned: Any = graph.output_node().args[0]
    results = [node for node in returned if isinstance(node, fx.Node)]
    chains = [_chain(node) for node in results]
    roots = Counter(chain[-1] for chain in chains)
    found: set[fx.Node] = set()
    for chain in chains:
        *views, root = chain
        if root.op == "placeholder" or roots[root] > 1:
            found.update(views)
    return found


def returns_argument(graph: fx.Graph) -> bool:
    """Whether a result is an argument itself."""
    returned: Any = graph.output_node().args[0]
    return any(isinstance(node, fx.Node) and node.op == "placeholder" for node in returned)


def _chain(node: fx.Node) -> list[fx.Node]:
    """Return ``node``, what it is a view of, and so on to what is no view."""
    chain = [node]
    while (base := _viewed(chain[-1])) is not None:
        chain.append(base)
    return chain


def _viewed(node: fx.Node) -> fx.Node | None:
    """Return the value that ``node`` may share memory with."""
    if node.op != "call_function":
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        # A part of what an operator returns, like one chunk of several.
        first = node.args[0] if node.args else None
        return first if isinstance(first, fx.Node) and _viewed(first) is not None else None
    schema = node.target._schema
    if not any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns):
        return None
    for argument, value in zip(schema.arguments, node.args, strict=False):
        if argument.alias_info is not None and isinstance(value, fx.Node):
            return value
    return None
