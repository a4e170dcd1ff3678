"""Which operators multiply by a weight: at which input, and how the weight lies there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_sparse.base.table import Table
from tvm_sparse.onnx_files.layout import Layout

PRODUCT, CONVOLUTION, RECURRENT = "product", "convolution", "recurrent"

QUANTIZED = (
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulInteger",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QAttention",
    "QGemm",
    "QLinearConv",
    "QLinearMatMul",
)
"""Operators whose weight is integers."""

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Which of ONNX's gates is each one of PyTorch's."""


@dataclass(frozen=True)
class Place:
    """An input of a node that may be a weight.

    ``reads`` is the position of what it is multiplied by, ``turned`` whether the columns of that
    are in its last axis but one. ``rank`` is that of the weight, ``None`` for any.
    """

    position: int
    sort: str
    layout: Layout
    reads: int = 0
    turned: bool = False
    rank: int | None = 2


def attributes(node: Any) -> dict[str, Any]:
    """Return the attributes of ``node`` as Python has them."""
    from onnx import helper

    plain = (a for a in node.attribute if not (a.HasField("g") or a.graphs or a.ref_attr_name))
    return {a.name: helper.get_attribute_value(a) for a in plain}


def _general_product(given: Mapping[str, Any]) -> Iterator[Place]:
    left, right = bool(given.get("transA", 0)), bool(given.get("transB", 0))
    if given.get("transBatchA", 0) or given.get("transBatchB", 0):
        return
    yield Place(1, PRODUCT, Layout(transposed=not right), reads=0, turned=left)
    yield Place(0, PRODUCT, Layout(transposed=left), reads=1, turned=not right)


def _convolution(_: Mapping[str, Any]) -> Iterator[Place]:
    yield Place(1, CONVOLUTION, Layout(), rank=None)


def _attention(_: Mapping[str, Any]) -> Iterator[Place]:
    yield Place(1, PRODUCT, Layout(transposed=True))


def _recurrent(operator: str) -> Callable[[Mapping[str, Any]], Iterator[Place]]:
    def places(given: Mapping[str, Any]) -> Iterator[Place]:
        count = 2 if given.get("direction", b"forward") == b"bidirectional" else 1
        for position in (1, 2):
            for direction in range(count):
                layout = Layout(direction=direction, gates=_GATES[operator])
                yield Place(position, RECURRENT, layout, rank=3)

    return places


OPERATORS: Table[Callable[[Mapping[str, Any]], Iterator[Place]]] = Table(
    "ONNX operator with a weight",
    {
        "Gemm": _general_product,
        "MatMul": _general_product,
        "FusedGemm": _general_product,
        "FusedMatMul": _general_product,
        "Conv": _convolution,
        "FusedConv": _convolution,
        "Attention": _attention,
        **{name: _recurrent(name) for name in _GATES},
    },
)
"""By its name, which the domains of ONNX and onnxruntime do not use twice for different things."""


def places_of(node: Any) -> list[Place]:
    """Return the inputs of ``node`` that may be weights."""
    places = OPERATORS.parts().get(node.op_type)
    if places is None or (node.op_type == "Attention" and node.domain != "com.microsoft"):
        return []  # ONNX's own Attention has no weights
    return [*places(attributes(node))]
