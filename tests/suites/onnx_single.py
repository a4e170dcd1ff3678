"""ONNX models in single precision, to tell which of two results in half precision is nearer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

_HALF, _SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT


def in_single_precision(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of ``model`` as ONNX's reference computes them without half precision."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == _HALF:
            value.type.tensor_type.elem_type = _SINGLE
    for tensor in wide.graph.initializer:
        _widen(tensor)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == _HALF:
                attribute.i = _SINGLE
            if attribute.type == onnx.AttributeProto.TENSOR:
                _widen(attribute.t)
    names = [value.name for value in wide.graph.input]
    values: list[Any] = [x.astype(np.float32) if x.dtype == np.float16 else x for x in inputs]
    return ReferenceEvaluator(wide).run(None, dict(zip(names, values, strict=False)))


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == _HALF:
        array = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
