"""Which inputs of a graph decide a value, for advice that names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tvm_sparse.frontends.onnx.types import to_array
from tvm_sparse.frontends.onnx.weights import weight_of

ADVICE = "fix the input that decides it: constants={{{}}} (--constant {})"

_SHAPES = {"Shape", "Size"}
"""Operators that read no element."""


class Origins:
    """The values of a ``GraphProto``, subgraphs included, traced back to its inputs.

    ``weights`` were taken out of it.
    """

    def __init__(self, graph: Any, weights: Mapping[str, np.ndarray]) -> None:
        self._weights = weights
        self._inputs = {value.name: value for value in graph.input}
        self._makers = {name: node for node in _nodes(graph) for name in node.output}

    def advice(self, name: str) -> str:
        """Return how to fix what decides the value ``name``: one element that is an input."""
        behind = [*self._behind(name)]
        single = [n for n in behind if n in self._inputs and _is_single(self._inputs[n])]
        numbers = [n for n in (self._compared_with(b) for b in behind) if n is not None]
        value = f"{numbers[0]:g}" if len(numbers) == len(single) == 1 else "NUMBER"
        names = single or ["NAME"]
        given = ", ".join(f"'{n}': {value}" for n in names)
        return ADVICE.format(given, " --constant ".join(f"{n}={value}" for n in names))

    def _behind(self, name: str) -> Iterator[str]:
        """Yield ``name`` and the names of all values that it is computed from."""
        seen, left = {name}, [name]
        while left:
            found = left.pop()
            yield found
            maker = self._makers.get(found)
            if maker is not None and maker.op_type not in _SHAPES:
                left += [n for n in maker.input if n and n not in seen]
                seen.update(maker.input)

    def _compared_with(self, name: str) -> float | None:
        """Return the number that the value ``name`` says something is equal to."""
        maker = self._makers.get(name)
        if maker is None or maker.op_type != "Equal":
            return None
        found = [n for n in map(self._number, maker.input) if n is not None]
        return found[0] if len(found) == 1 else None

    def _number(self, name: str) -> float | None:
        """Return the value ``name``, if it is a number that the graph holds."""
        maker, array = self._makers.get(name), self._weights.get(name)
        if array is None and maker is not None and maker.op_type == "Constant":
            tensor = next((a.t for a in maker.attribute if a.name == "value"), None)
            taken = None if tensor is None else weight_of(tensor)
            array = self._weights[taken] if taken else tensor and to_array(tensor, name)
        return float(array.reshape(())) if array is not None and array.size == 1 else None


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _is_single(value: Any) -> bool:
    """Whether a ``ValueInfoProto`` is a tensor of one element."""
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(dim.dim_value == 1 for dim in tensor.shape.dim)
