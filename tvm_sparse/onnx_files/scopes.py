"""The values of an ONNX model: who makes each, who reads it, inner graphs included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOVING = (
    "Cast",
    "Concat",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)
"""Operators through which stored weights are followed: they compute nothing."""


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor that the file has: an initializer, or the value of a ``Constant``.

    ``name`` is the initializer's, or that of the constant's node; ``value`` is what nodes read.
    ``inner`` ones belong to a graph inside of a node.
    """

    name: str
    value: str
    tensor: Any
    inner: bool = False


class Reader(NamedTuple):
    """Where a value is read: an input of ``node``, ``None`` for an output of the graph."""

    scope: Scope
    node: Any | None
    position: int


@dataclass(eq=False)
class Scope:
    """One graph of the model, and the one around it."""

    graph: Any
    parent: Scope | None = None
    opsets: Any = ()
    inputs: frozenset[str] = frozenset()
    stored: dict[str, Stored] = field(default_factory=dict)
    makers: dict[str, Any] = field(default_factory=dict)
    readers: dict[str, list[Reader]] = field(default_factory=dict)

    def home(self, name: str) -> Scope | None:
        """Return the scope that defines the value ``name``, if one does."""
        if name in self.stored or name in self.makers or name in self.inputs:
            return self
        return self.parent.home(name) if self.parent else None

    def ends(self, name: str) -> Iterator[Reader]:
        """Yield where the value ``name`` is read, past operators that only pass it on."""
        home = self.home(name)
        for reader in home.readers.get(name, ()) if home else ():
            node = reader.node
            if node is None or node.op_type not in MOVING:
                yield reader
            elif not reader.position or node.op_type == "Concat":
                for output in node.output:
                    yield from reader.scope.ends(output)
            else:
                yield reader


def read_scopes(proto: Any) -> list[tuple[Scope, Any]]:
    """Return every node of the graph and of those inside of it, in order, with its scope."""
    found: list[tuple[Scope, Any]] = []
    whole = _enter(proto.graph, None, found, proto.opset_import)
    for scope, node in found:
        for position, name in enumerate(node.input):
            _enter_reader(name, Reader(scope, node, position))
    for scope in {id(scope): scope for scope in (whole, *(s for s, _ in found))}.values():
        for value in scope.graph.output:
            _enter_reader(value.name, Reader(scope, None, 0))
    return found


def _enter_reader(name: str, reader: Reader) -> None:
    home = reader.scope.home(name) if name else None
    if home is not None:
        home.readers.setdefault(name, []).append(reader)


def _enter(graph: Any, parent: Scope | None, found: list[tuple[Scope, Any]], opsets: Any) -> Scope:
    scope = Scope(graph, parent, opsets, frozenset(value.name for value in graph.input))
    inner = parent is not None
    for tensor in graph.initializer:
        scope.stored[tensor.name] = Stored(tensor.name, tensor.name, tensor, inner)
    for node in graph.node:
        value = next((a.t for a in node.attribute if a.name == "value" and a.HasField("t")), None)
        if node.op_type == "Constant" and value is not None:
            name = node.name or node.output[0]
            scope.stored[node.output[0]] = Stored(name, node.output[0], value, inner)
        else:
            scope.makers.update((name, node) for name in node.output if name)
        found.append((scope, node))
        for attribute in node.attribute:
            for own in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                _enter(own, scope, found, opsets)
    return scope
