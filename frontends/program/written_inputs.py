"""Inputs that a model writes into: PyTorch changes the caller's tensors, a library does not."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import fx
from torch.export.graph_signature import InputKind, OutputKind

from tvm_sparse.errors import WrittenInputWarning


def warn_of_written_inputs(program: torch.export.ExportedProgram, roots: Sequence[fx.Node]) -> None:
    """Warn of inputs that the model writes into and does not return.

    ``program`` is as it was exported, before decompositions; its nodes write into ``roots``. A
    caller who reads such an input after the call, a cache of keys and values say, reads what
    PyTorch would have changed.
    """
    signature = program.graph_signature
    results = {node.name: node for node in program.graph.output_node().all_input_nodes}
    outputs = [(spec.kind, spec.arg.name, spec.target) for spec in signature.output_specs]
    returned = [
        results[name]
        for kind, name, _ in outputs
        if kind is OutputKind.USER_OUTPUT and name in results
    ]
    changed = [
        (target, results[name])
        for kind, name, target in outputs
        if kind is OutputKind.USER_INPUT_MUTATION
    ]
    given = {s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT}
    changed += [(root.name, root) for root in roots if root.name in given]
    lost = [name for name, value in changed if not _is_returned(value, returned)]
    for name in dict.fromkeys(lost):
        told = f"input '{name}': the model writes into it, and a library leaves it as it is"
        remedy = "return it from the model if you read it after the call"
        warnings.warn(f"{told}; {remedy}.", WrittenInputWarning, stacklevel=2)


def written_roots(program: torch.export.ExportedProgram) -> list[fx.Node]:
    """Return the nodes whose memory other nodes write into, through views of them."""
    return [root for root in map(_written_root, program.graph.nodes) if root]


def _written_root(node: fx.Node) -> fx.Node | None:
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    if node.target is torch.ops.aten.detach_.default:
        return None  # it changes what autograd records, no element
    arguments = node.target._schema.arguments
    given = {a.name: value for a, value in zip(arguments, node.args, strict=False)}
    given.update(node.kwargs)
    for schema in arguments:
        if schema.alias_info is not None and schema.alias_info.is_write:
            value = given.get(schema.name)
            return root_of(value) if isinstance(value, fx.Node) else None
    return None


def root_of(node: fx.Node) -> fx.Node:
    """Return what ``node`` is a view of."""
    while isinstance(node.target, torch._ops.OpOverload) and node.args:
        returns, first = node.target._schema.returns, node.args[0]
        if not isinstance(first, fx.Node) or not returns or returns[0].alias_info is None:
            break
        node = first
    return node


def _is_returned(value: fx.Node, returned: list[fx.Node]) -> bool:
    """Whether one of the views of ``value`` that are ``returned`` has all of its elements."""
    root = root_of(value)
    shapes = [str(node.meta["val"].shape) for node in returned if root_of(node) is root]
    return str(value.meta["val"].shape) in shapes
