"""Weights of few bits, which are bytes here where nothing but their meaning is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_sparse.frontends.onnx.types import read_array

_WIDER = {"INT4": np.int8, "UINT4": np.uint8, "INT2": np.int8, "UINT2": np.uint8}
"""The type that holds the numbers of a narrow one."""

_BITS = "bits"
"""The key by which a tensor of bytes says how many bits its numbers had."""

_READER, _PLACES = "DequantizeLinear", (0, 2)
"""The operator that gives numbers their meaning, and where it reads them: with the zero point."""


def widen(proto: Any, nodes: list[Any]) -> None:
    """Let narrow weights of ``proto`` be bytes if ``nodes`` read only their meaning.

    Any other operator depends on the type itself: such weights are refused when they are taken.
    """
    from onnx import TensorProto, numpy_helper

    other = {value.name for value in proto.graph.output}
    for node in nodes:
        for place, name in enumerate(node.input):
            if node.op_type != _READER or place not in _PLACES:
                other.add(name)
    for tensor in proto.graph.initializer:
        known = tensor.data_type in TensorProto.DataType.values()
        wider = _WIDER.get(TensorProto.DataType.Name(tensor.data_type)) if known else None
        if wider is not None and tensor.name not in other:
            array = read_array(tensor, f"weight '{tensor.name}'").astype(wider)
            bits = TensorProto.DataType.Name(tensor.data_type)[-1]
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
            tensor.metadata_props.add(key=_BITS, value=bits)


def notes_on(proto: Any, nodes: list[Any]) -> dict[str, str]:
    """Return what reports say of weights of few bits, by the names of the weights."""
    found = {
        tensor.name: int(said.value)
        for tensor in proto.graph.initializer
        for said in tensor.metadata_props
        if said.key == _BITS
    }
    for node in nodes:
        if node.op_type == "MatMulNBits":
            found[node.input[1]] = next((a.i for a in node.attribute if a.name == "bits"), 4)
    said = "weights of {} bits, unpacked when compiled: right, but no faster than wider ones"
    return {name: said.format(bits) for name, bits in found.items()}
