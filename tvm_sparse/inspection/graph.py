"""The layers of an imported model: constants that its convolutions and products multiply by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_sparse.base.names import layer_of, plain_name
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.modules.layer_types import conv_type, matrix_type
from tvm_sparse.frontends.modules.layers import LayerWeight, outputs_first
from tvm_sparse.passes.canonical.bind_weights import BindWeights
from tvm_sparse.passes.canonical.fold_constants import FoldConstants
from tvm_sparse.passes.canonical.simplify import Simplify
from tvm_sparse.passes.graph.recurrences import recurrent_of
from tvm_sparse.passes.graph.rewrite import name_of, op_name


def graph_layers(model: Model) -> list[LayerWeight]:
    """Return the layers of ``model`` in the order of the graph, masks applied."""
    fold = tvm.transform.Sequential(
        [BindWeights(model.weights, len(model.inputs)), Simplify(), FoldConstants()]
    )
    shapes = {name: value.shape for name, value in model.weights.items()}
    found: dict[str, LayerWeight] = {}

    def visit(expr: Any) -> None:
        layer = _layer(expr, shapes)
        if layer is not None:
            found.setdefault(layer.weight, layer)

    relax.analysis.post_order_visit(fold(model.module)["main"].body, visit)
    return list(found.values())


def _layer(call: Any, shapes: dict[str, tuple[int, ...]]) -> LayerWeight | None:
    operator = op_name(call)
    if operator == "matmul":
        return _product(call, shapes)
    if (recurrent := recurrent_of(call)) is not None:
        return _matrix(recurrent.weight, shapes, transpose=False)
    if not operator.startswith("nn.conv"):
        return None
    weight = call.args[1]
    if not isinstance(weight, GenericConst) or not name_of(weight):
        return None
    extents = [int(e) for e in weight.value.shape]
    groups, transposed = int(call.attrs.groups), operator.endswith("_transpose")
    inputs = extents[0] if transposed else extents[1] * groups
    layer_type = conv_type(len(extents) - 2, groups, inputs, transposed=transposed)

    def read() -> np.ndarray:
        value = weight.value.numpy()
        return outputs_first(value, groups) if transposed else value

    return _made(name_of(weight), layer_type, read)


def _product(call: Any, shapes: dict[str, tuple[int, ...]]) -> LayerWeight | None:
    """Return the layer of ``matmul(x, weight)`` or ``matmul(weight, x)``."""
    found = (_matrix(call.args[position], shapes, transpose=position == 1) for position in (1, 0))
    return next(filter(None, found), None)


def _matrix(
    weight: Any, shapes: dict[str, tuple[int, ...]], *, transpose: bool
) -> LayerWeight | None:
    """Return the layer of a matrix, or of several side by side, that is a named constant."""
    if not isinstance(weight, GenericConst) or not name_of(weight):
        return None
    if len(weight.value.shape) < 2:
        return None
    layer_type = matrix_type(plain_name(name_of(weight)), shapes)
    return _made(name_of(weight), layer_type, _reader(weight, transpose=transpose))


def _reader(weight: GenericConst, *, transpose: bool) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        value = weight.value.numpy()
        value = value.swapaxes(-1, -2) if transpose else value
        return value if value.ndim == 2 else value.reshape(-1, value.shape[-1])

    return read


def _made(stored: str, layer_type: str, read: Callable[[], np.ndarray]) -> LayerWeight:
    name = plain_name(stored)
    storage = "dense" if name == stored else "masked"
    return LayerWeight(layer_of(name), name, layer_type, read, storage)
