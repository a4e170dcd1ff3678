"""An ONNX graph as a torch module: its weights are buffers, its nodes are run in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx import converters
from tvm_sparse.frontends.onnx.functions import Functions
from tvm_sparse.frontends.onnx.known import Known, is_small
from tvm_sparse.frontends.onnx.origins import Origins
from tvm_sparse.frontends.onnx.scope import Scope, Value, as_tensor, look_up
from tvm_sparse.frontends.onnx.types import to_tensor
from tvm_sparse.onnx_files.checker import IMPLIED

assert converters.__path__, "importing it enters the converters"


class Step(nn.Module):
    """One node, a module of its own so that the exporter remembers it."""

    def __init__(self, scope: Scope, proto: Any) -> None:
        super().__init__()
        self.scope, self.proto = scope, proto

    def forward(self, env: dict[str, Value]) -> None:
        """Run the node on the values in ``env`` and enter its outputs."""
        self.scope.step(self.proto, env)


class Network(nn.Module):
    """The graph of ``proto`` with ``weights``, which share memory with the buffers.

    Parameters
    ----------
    proto
        A checked ``ModelProto``.
    weights
        What :func:`~tvm_sparse.frontends.onnx.weights.take_weights` took out of it.
    """

    def __init__(self, proto: Any, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        opsets = IMPLIED | {
            ("" if o.domain == "ai.onnx" else o.domain): o.version for o in proto.opset_import
        }
        self.input_names = tuple(value.name for value in proto.graph.input)
        self.output_names = tuple(value.name for value in proto.graph.output)
        self.weight_names = dict(zip(map("w{}".format, range(len(weights))), weights, strict=True))
        self._places = {name: buffer for buffer, name in self.weight_names.items()}
        self._initializers = [tensor.name for tensor in proto.graph.initializer]
        self._arrays = dict(weights)
        for buffer, name in self.weight_names.items():
            self.register_buffer(buffer, to_tensor(weights[name]))
        given = frozenset((*self.input_names, *self._initializers, *_constants(proto)))
        scope = Scope(
            opsets,
            Functions(proto.functions),
            given=given,
            weight=self._weight,
            fixing=Origins(proto.graph, weights).advice,
        )
        self.node_names = {}
        for i, node in enumerate(proto.graph.node):
            self.add_module(f"n{i}", Step(scope, node))
            self.node_names[f"n{i}"] = scope.node(node, {}).name

    def _weight(self, name: str) -> Value:
        tensor, array = self.get_buffer(self._places[name]), self._arrays[name]
        return Known(array, tensor) if is_small(array) else tensor

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs in the graph's order."""
        env: dict[str, Value] = dict(zip(self.input_names, inputs, strict=True))
        env.update((name, self._weight(name)) for name in self._initializers)
        for step in self.children():
            step(env)
        outputs = []
        for name in self.output_names:
            place = f"output '{name}'"
            value = as_tensor(look_up(env, name, place), place)
            if value is None:
                raise InputError(place, "is left out", "a tensor")
            outputs.append(value)
        return tuple(outputs)


def _constants(proto: Any) -> list[str]:
    return [name for node in proto.graph.node if node.op_type == "Constant" for name in node.output]
