"""Operators that are defined by other operators: functions of the model, and ONNX's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from onnx import FunctionProto, TypeProto, defs, helper

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.onnx.known import Known
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.types import element_of


class Functions:
    """The functions of a model by domain and name, and behind them those of ONNX's schemas."""

    def __init__(self, functions: Iterable[Any] = ()) -> None:
        self._own = {(f.domain, f.name): f for f in functions}

    def has(self, node: Node) -> bool:
        """Whether the model itself says what the operator of ``node`` computes."""
        return (node.domain, node.operator) in self._own

    def body(self, node: Node, inputs: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """Return the function that defines the operator of ``node``, and its default attributes.

        Raises
        ------
        UnsupportedError
            There is none.
        """
        found = self._own.get((node.domain, node.operator))
        if found is not None:
            return found, {a.name: attribute_value(a) for a in found.attribute_proto}
        try:
            schema = defs.get_schema(node.operator, node.opset, node.domain)
        except defs.SchemaError:
            raise _unknown(node) from None
        text = _serialized(schema, node, inputs)
        if text is None:
            raise _unknown(node)
        body = FunctionProto()
        body.ParseFromString(text)
        return body, {
            name: attribute_value(attribute.default_value)
            for name, attribute in schema.attributes.items()
            if attribute.default_value.name
        }


_REMEDIES = {
    "": "export the model with other operators",
    "com.microsoft": "save the model without onnxruntime's optimisations (ORT_ENABLE_BASIC)",
    "com.microsoft.nchwc": "save the model with ORT_ENABLE_EXTENDED: ORT_ENABLE_ALL is laid out "
    "for one machine",
    "com.ms.internal.nhwc": "save the model with ORT_ENABLE_EXTENDED: ORT_ENABLE_ALL is laid out "
    "for one machine",
}
"""What to do about an unknown operator, by its domain; another domain's needs its function."""


def _unknown(node: Node) -> UnsupportedError:
    domain = f"domain '{node.domain}'" if node.domain else "ONNX's own domain"
    remedy = _REMEDIES.get(node.domain, "add it to the model as a function, or export without it")
    return UnsupportedError(
        node.place,
        f"operator '{node.operator}' of {domain} cannot be imported",
        "operators that the documentation lists",
        f"{remedy}{node.cut}",
    )


def _serialized(schema: Any, node: Node, inputs: Sequence[Any]) -> bytes | None:
    """Return the newest function of ``schema`` that the node's operator set may use."""
    versions = [v for v in schema.function_opset_versions if v <= node.opset]
    if versions:
        return bytes(schema.get_function_with_opset_version(max(versions)))
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    if not versions:
        return None
    plain = helper.make_node(
        node.operator, node.inputs, node.outputs, domain=node.domain, **node.attributes
    )
    types = [_type(value) for value in inputs]
    return bytes(
        schema.get_context_dependent_function_with_opset_version(
            max(versions), plain.SerializeToString(), types
        )
    )


def attribute_value(proto: Any) -> Any:
    """Return the value of an ``AttributeProto``, its text decoded."""
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [item.decode(errors="replace") for item in value]
    return value if not hasattr(value, "extend") or isinstance(value, list) else list(value)


def _type(value: Any) -> bytes:
    """Return the serialized type of a value, empty for one that is left out."""
    if value is None:
        return bytes(TypeProto().SerializeToString())
    if isinstance(value, Known):
        element = torch.int64 if value.array.dtype == object else value.tensor().dtype
        shape: list[Any] = list(value.array.shape)
    else:
        element = value.dtype
        shape = [extent if isinstance(extent, int) else None for extent in value.shape]
    return bytes(helper.make_tensor_type_proto(element_of(element), shape).SerializeToString())
