"""Weights whose elements the file moves before they are read: cut, joined, in another order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvm_sparse.onnx_files.layout import Layout, Places
from tvm_sparse.onnx_files.operators import CONVOLUTION, RECURRENT, Place
from tvm_sparse.onnx_files.scopes import MOVING, Scope, Stored


class _NotMoved(Exception):
    """Something else than moving is done to the elements."""


def moved_weight(scope: Scope, name: str, place: Place) -> tuple[Scope, Stored, Layout] | None:
    """Return the tensor all of whose elements the value ``name`` is, as ``place`` reads it.

    ``None`` if an element is computed, missing, twice there, or of another tensor. A recurrent
    node's value may have a tensor for each direction.
    """
    numbers = _Numbers()
    try:
        value = numbers.of(scope, name)
        if value.ndim != place.rank and not (place.sort == CONVOLUTION and 3 <= value.ndim <= 5):
            return None
        if place.sort == RECURRENT and value.shape[1] % len(place.layout.gates):
            return None
        wanted = place.layout.weight(value)
    except (_NotMoved, IndexError):
        return None
    for first, home, stored in numbers.tensors:
        size = math.prod(stored.tensor.dims)
        if not size or wanted.size != size:
            continue
        if np.array_equal(np.sort(wanted, None), first + np.arange(size)):
            return home, stored, Layout(places=Places(wanted - first))
    return None


class _Numbers:
    """Values in which each element of a stored tensor of floats is a number of its own."""

    def __init__(self) -> None:
        self.tensors: list[tuple[int, Scope, Stored]] = []
        self._next = 0

    def of(self, scope: Scope, name: str) -> np.ndarray:
        """Return the value ``name`` with numbers in place of floats."""
        home = scope.home(name)
        stored = home.stored.get(name) if home else None
        if home is not None and stored is not None:
            return self._stored(home, stored)
        maker = home.makers.get(name) if home else None
        if home is None or maker is None or maker.op_type not in MOVING or maker.domain:
            raise _NotMoved
        inputs = {read: self.of(home, read) for read in maker.input if read}
        if maker.op_type in ("Cast", "Identity"):
            return inputs[maker.input[0]]
        return _run(maker, home.opsets, inputs)[[*maker.output].index(name)]

    def _stored(self, home: Scope, stored: Stored) -> np.ndarray:
        from onnx import numpy_helper

        tensor = stored.tensor
        if tensor.data_type in (tensor.INT64, tensor.INT32):
            return numpy_helper.to_array(tensor)
        known = [first for first, _, other in self.tensors if other is stored]
        size = math.prod(tensor.dims)
        if not known:
            self.tensors.append((self._next, home, stored))
            known, self._next = [self._next], self._next + size
        return np.arange(known[0], known[0] + size).reshape(tuple(tensor.dims))


def _run(node: Any, opsets: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    from onnx import ValueInfoProto, helper
    from onnx.reference import ReferenceEvaluator

    values = [ValueInfoProto(name=name) for name in inputs]
    results = [ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "moved", values, results)
    try:
        model = helper.make_model(graph, opset_imports=list(opsets))
        found = ReferenceEvaluator(model).run(None, inputs)
    except Exception as error:  # of ONNX's own implementation
        raise _NotMoved from error
    return list(found)
