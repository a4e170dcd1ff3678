"""Runs the nodes of a graph in torch, one after another, whether traced or not."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.frontends.onnx import known
from tvm_sparse.frontends.onnx.agreement import reason
from tvm_sparse.frontends.onnx.functions import Functions, attribute_value
from tvm_sparse.frontends.onnx.known import Known, Series
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import Converter, find
from tvm_sparse.frontends.onnx.types import to_array
from tvm_sparse.frontends.onnx.weights import label, weight_of

Value: TypeAlias = torch.Tensor | Known | Series | None
"""A value of a graph; None is an optional one that is left out."""

DEEPEST = 64
"""Functions and subgraphs inside one another, at most."""


@dataclass(frozen=True)
class Scope:
    """What the nodes of a graph are read with.

    Parameters
    ----------
    opsets
        Version of each operator set by its domain.
    functions
        Bodies of operators that the model or ONNX defines by other operators.
    outer
        What the attributes of a function's body refer to.
    depth
        Functions and subgraphs around this one.
    given
        Names of the whole graph's inputs and weights, which no node computes.
    weight
        Returns a weight that was taken out of the graph, by its name.
    fixing
        Returns the advice to fix what decides a value, by its name.
    """

    opsets: Mapping[str, int]
    functions: Functions
    outer: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    given: frozenset[str] = frozenset()
    weight: Callable[[str], Value] = field(default=lambda name: None, repr=False)
    fixing: Callable[[str], str] = field(default=lambda name: "", repr=False)

    def node(self, proto: Any, env: MutableMapping[str, Value]) -> Node:
        """Return the node that ``proto`` describes, its subgraphs reading ``env``."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        node = Node(
            proto.op_type,
            domain,
            self.opsets.get(domain, 0),
            label(proto),
            tuple(proto.input),
            tuple(proto.output),
            self._attributes(proto),
            fixing=self.fixing,
        )
        return replace(node, run=lambda graph, inputs: self.subgraph(node, graph, inputs, env))

    def subgraph(
        self, node: Node, graph: Any, inputs: Sequence[Value], env: MutableMapping[str, Value]
    ) -> list[Value]:
        """Return the outputs of a subgraph of ``node`` on ``inputs``."""
        if self.depth >= DEEPEST:
            raise node.refuse("subgraphs lie too deep in one another", f"{DEEPEST} or fewer")
        if len(inputs) != len(graph.input):
            raise node.unsound(f"its graph takes {len(graph.input)} inputs", f"{len(inputs)}")
        local: dict[str, Value] = {}
        for tensor in graph.initializer:
            local[tensor.name] = self._constant(tensor, f"constant '{tensor.name}'")
        local.update(zip((value.name for value in graph.input), inputs, strict=True))
        scope = replace(self, depth=self.depth + 1)
        inner = ChainMap(local, env)
        scope.run(graph.node, inner)
        return [look_up(inner, value.name, node.place) for value in graph.output]

    def run(self, nodes: Sequence[Any], env: MutableMapping[str, Value]) -> None:
        """Run ``nodes`` in order; their outputs are entered in ``env``."""
        for proto in nodes:
            self.step(proto, env)

    def step(self, proto: Any, env: MutableMapping[str, Value]) -> None:
        """Run one node.

        Raises
        ------
        SparseError
            It cannot be converted; the message names it.
        """
        node = self.node(proto, env)
        inputs = [look_up(env, name, node.place) if name else None for name in node.inputs]
        if not self.depth:
            node = replace(node, computed=self._computed(node, inputs))
        try:
            outputs = self._outputs(node, inputs)
        except SparseError:
            raise
        except Exception as error:
            why = reason(error, inputs)
            found = f"operator '{node.operator}' cannot be imported ({why})"
            raise InputError(node.place, found) from error
        env.update(zip(node.outputs, outputs, strict=False))

    def _computed(self, node: Node, inputs: list[Value]) -> tuple[str, ...]:
        """Return the names of inputs that other nodes compute when the graph runs."""
        pairs = dict(zip(node.inputs, inputs, strict=True)).items()
        found = (name for name, value in pairs if isinstance(value, torch.Tensor))
        return tuple(name for name in found if name not in self.given)

    def _outputs(self, node: Node, inputs: list[Value]) -> Sequence[Value]:
        if all(x is None or isinstance(x, Known) for x in inputs) and inputs:
            value = known.compute(node, [x for x in inputs if x is None or isinstance(x, Known)])
            if value is not None:
                return [value]
        converter = find(node.operator, node.domain, node.opset)
        if converter is not None and not self.functions.has(node):
            result = _convert(converter, node, inputs)
            return result if isinstance(result, tuple | list) else [result]
        return self._expand(node, inputs)

    def _expand(self, node: Node, inputs: list[Value]) -> list[Value]:
        """Run the nodes of the function that defines the operator of ``node``."""
        if self.depth >= DEEPEST:
            raise node.refuse("functions lie too deep in one another", f"{DEEPEST} or fewer")
        body, defaults = self.functions.body(node, inputs)
        padded = [*inputs, *[None] * len(body.input)][: len(body.input)]
        env: dict[str, Value] = dict(zip(body.input, padded, strict=True))
        opsets = {**self.opsets, **{o.domain: o.version for o in body.opset_import}}
        outer = {**defaults, **node.attributes}
        inner = replace(self, opsets=opsets, outer=outer, depth=self.depth + 1)
        inner.run(body.node, env)
        wanted = body.output[: len(node.outputs)]
        names = zip(wanted, node.outputs, strict=True)
        return [look_up(env, name, node.place) if used else None for name, used in names]

    def _constant(self, tensor: Any, place: str) -> Value:
        """Return a constant of a graph, which may have been taken out of it."""
        taken = weight_of(tensor)
        return self.weight(taken) if taken else Known(to_array(tensor, place))

    def _attributes(self, proto: Any) -> dict[str, Any]:
        found = {}
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                taken = attribute.type == attribute.TENSOR and weight_of(attribute.t)
                value = self.weight(taken) if taken else attribute_value(attribute)
                found[attribute.name] = value
            elif attribute.ref_attr_name in self.outer:
                found[attribute.name] = self.outer[attribute.ref_attr_name]
        return found


def look_up(env: Mapping[str, Value], name: str, place: str) -> Value:
    """Return the value ``name``.

    Raises
    ------
    InputError
        No node, input or initializer before this one gives it.
    """
    if name not in env:
        raise InputError(place, f"reads '{name}', which nothing before it gives", "a known value")
    return env[name]


def as_tensor(value: Value, place: str) -> torch.Tensor | None:
    """Return ``value`` as a tensor.

    Raises
    ------
    InputError
        It is a sequence of tensors.
    """
    if isinstance(value, Series):
        raise InputError(place, "is a sequence", "a tensor", "join its tensors, or name each")
    return value.tensor() if isinstance(value, Known) else value


def _convert(converter: Converter, node: Node, inputs: list[Value]) -> Any:
    """Call ``converter`` with the inputs and attributes of ``node``."""
    unread = sorted(set(node.attributes) - converter.keywords - converter.reads)
    if unread and not converter.any_attributes:
        raise node.refuse(f"its attribute '{unread[0]}' is not known", "attributes of its version")
    parameters = converter.inputs
    variadic = bool(parameters) and parameters[-1].kind is parameters[-1].VAR_POSITIONAL
    if len(inputs) > len(parameters) and not variadic:
        raise node.refuse(f"has {len(inputs)} inputs", f"{len(parameters)} or fewer")
    arguments: list[Any] = []
    for i, value in enumerate(inputs):
        name = parameters[min(i, len(parameters) - 1)].name
        if name in converter.static:
            arguments.append(_static(node, name, value, node.inputs[i], raw=converter.raw))
        elif name in converter.known and type(value) is Known:
            arguments.append(value.array)
        else:
            arguments.append(value)
    if not converter.raw:
        arguments = [
            a if isinstance(a, np.ndarray) else as_tensor(a, node.place) for a in arguments
        ]
    given = {k: v for k, v in node.attributes.items() if k in converter.keywords}
    extra = {"node": node} if converter.wants_node else {}
    return converter.function(*arguments, **given, **extra)


def _static(node: Node, name: str, value: Value, given_as: str, *, raw: bool) -> np.ndarray | None:
    """Return the input ``name``, which must be known; the graph calls it ``given_as``.

    Only a ``raw`` converter, which takes values as they are, gets floats that were open extents.
    """
    if value is None or (isinstance(value, Known) and (raw or type(value) is Known)):
        return None if value is None else value.array
    raise node.refuse(
        f"its input '{name}' is computed or given at run time",
        "a constant, or what follows from constants and shapes",
        f"make it an initializer before the export, or {node.fixing(given_as)}",
    )
