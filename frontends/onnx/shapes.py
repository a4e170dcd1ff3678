"""ONNX models for other shapes of their inputs than those that they were exported with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.onnx.model import to_model


def fixed_model(
    proto: Any, source: str, batch: int, shapes: Sequence[Sequence[int]] | None = None
) -> Model:
    """Import a checked ``ModelProto`` for inputs of given shapes.

    Parameters
    ----------
    proto
        What :func:`~tvm_sparse.frontends.onnx.reader.read_onnx` returns; it is changed.
    source
        How messages call the model.
    batch
        First extent of every input that begins with a batch: with an open extent, with one, or
        as the first input does.
    shapes
        Shapes of the inputs in order. Those of the model without it.

    Raises
    ------
    InputError
        An input is no tensor of that rank, or a node cannot be imported.
    """
    inputs = list(proto.graph.input)
    if shapes is not None and len(shapes) != len(inputs):
        raise InputError("input_shapes", f"are {len(shapes)}", f"one for each of {len(inputs)}")
    first = [*inputs[0].type.tensor_type.shape.dim][:1] if inputs else []
    lead = first[0].dim_value if first else 0
    for place, value in enumerate(inputs):
        dims = value.type.tensor_type.shape.dim
        given = [dim.dim_value for dim in dims] if shapes is None else [*shapes[place]]
        if len(given) != len(dims):
            found, wanted = f"has {len(dims)} axes", f"{len(given)} of them"
            raise InputError(f"input '{value.name}'", found, wanted)
        if len(dims) and dims[0].dim_value in (0, 1, lead):
            given[0] = dims[0].dim_value = batch
        if shapes is not None:
            for dim, extent in zip(dims, given, strict=True):
                dim.dim_value = extent
    return to_model(proto, source)
