"""What a model says about itself: inputs, outputs and metadata, as onnxruntime tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.extents import said
from tvm_sparse_runtime.spec import TensorSpec

_TYPES = {"float32": "float", "float64": "double"}
"""Types that ONNX calls otherwise than NumPy."""


@dataclass(frozen=True)
class NodeArg:
    """An input or an output. An open extent has a name, or None."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """Who made the model, and what else is noted; an artifact has nothing of it."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def type_of(dtype: str) -> str:
    """Return ONNX's name of tensors of a NumPy ``dtype``."""
    return f"tensor({_TYPES.get(dtype, dtype)})"


def of_specs(specs: Sequence[TensorSpec]) -> list[NodeArg]:
    """Return the inputs or outputs of an artifact."""
    return [NodeArg(spec.name, type_of(spec.dtype), list(spec.shape)) for spec in specs]


def of_values(values: Sequence[Any]) -> list[NodeArg]:
    """Return inputs or outputs of an ONNX graph."""
    return [_of_value(value) for value in values]


def _of_value(value: Any) -> NodeArg:
    from onnx import helper

    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return NodeArg(value.name, value.type.WhichOneof("value") or "", [])
    dtype = "string" if kind.elem_type == 8 else ""
    dtype = dtype or str(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return NodeArg(value.name, type_of(dtype), [said(dim) for dim in kind.shape.dim])


def metadata_of(proto: Any) -> ModelMetadata:
    """Return what a ``ModelProto`` says about itself."""
    return ModelMetadata(
        proto.producer_name,
        proto.graph.name,
        proto.domain,
        proto.doc_string,
        proto.graph.doc_string,
        proto.model_version,
        {entry.key: entry.value for entry in proto.metadata_props},
    )


def check_names(
    feed: Mapping[str, Any],
    inputs: Sequence[NodeArg],
    wanted: Sequence[str] | None,
    outputs: Sequence[str],
) -> None:
    """Refuse an unknown name, and an input without an array."""
    names = [value.name for value in inputs]
    for name in feed:
        if name not in names:
            raise InputError(f"input '{name}'", "is unknown", ", ".join(names))
    for name in names:
        if name not in feed:
            raise InputError(f"input '{name}'", "is missing", "an array for each input")
    for name in wanted or ():
        if name not in outputs:
            raise InputError(f"output '{name}'", "is unknown", ", ".join(outputs))


def fits(feed: Mapping[str, np.ndarray], inputs: Sequence[NodeArg]) -> bool:
    """Whether all arrays have the types of their inputs, and the extents that these fix."""
    return all(
        type_of(str(feed[value.name].dtype)) == value.type
        and feed[value.name].ndim == len(value.shape)
        and all(
            extent == known or not isinstance(known, int)
            for extent, known in zip(feed[value.name].shape, value.shape, strict=True)
        )
        for value in inputs
    )
