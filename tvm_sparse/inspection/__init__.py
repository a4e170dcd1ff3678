"""What is zero in a model, layer by layer, with the evidence: :func:`inspect`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tvm_sparse import frontends
from tvm_sparse.base.interrupts import whole_imports
from tvm_sparse.frontends.files.checkpoint import is_checkpoint
from tvm_sparse.frontends.files.part import Part, part_of
from tvm_sparse.frontends.load import open_source
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.modules.layers import LayerWeight, module_layers
from tvm_sparse.frontends.modules.nncf import without_hooks
from tvm_sparse.frontends.modules.quantized_layers import is_quantized, quantized_layers
from tvm_sparse.inspection.report import BYTES, FLOATS, Report, Row
from tvm_sparse.passes.bytes.weight_steps import find_steps
from tvm_sparse.patterns.detector import detect

__all__ = ["Report", "Row", "inspect"]

Progress = Callable[[str, int, int], None]


@whole_imports()
def inspect(
    model: Any,
    *,
    weights: str | Path | None = None,
    outputs: Sequence[str] | None = None,
    constants: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return which sparsity pattern each layer of ``model`` has, from its weights alone.

    Parameters
    ----------
    model
        A ``torch.nn.Module`` (no example inputs are needed), an ``ExportedProgram``, an imported
        :class:`~tvm_sparse.frontends.model.Model`, a ``.pt2``, ``.onnx`` or ``.safetensors`` file,
        the index of several or their folder, or a factory ``"pkg.module:function"``.
    weights
        For a factory: the safetensors to fill its module with.
    outputs, constants
        For an ONNX file: the part to look at, as :func:`~tvm_sparse.frontends.load.load` takes it.
    progress
        Called as ``progress("inspecting", done, total)`` after every layer.

    Raises
    ------
    InputError
        The model cannot be read, or a weight has a value that is not finite.
    """
    name, layers, notes = _layers(model, weights, part_of(outputs, constants))
    rows = []
    for done, layer in enumerate(layers, 1):
        rows.append(_row(layer, notes.get(layer.name, "")))
        if progress is not None:
            progress("inspecting", done, len(layers))
    return Report(name, tuple(rows))


def _layers(
    model: Any, weights: str | Path | None, part: Part
) -> tuple[str, list[LayerWeight], Mapping[str, str]]:
    """Return a name for ``model``, its layers, and what it says of them."""
    from tvm_sparse.inspection.graph import graph_layers

    if weights is None and not part and is_checkpoint(model):
        from tvm_sparse.inspection.tensors import tensor_layers

        return str(model), tensor_layers(Path(model)), {}
    name = str(model) if isinstance(model, str | Path) else type(model).__name__
    name = "model" if isinstance(model, Model) else name
    opened = open_source(model, weights, part)
    if is_quantized(opened):
        return name, quantized_layers(opened), {}
    if isinstance(opened, torch.nn.Module):
        return name, module_layers(without_hooks(opened)), {}
    imported = frontends.load(opened)
    return name, graph_layers(imported), imported.notes


def _row(layer: LayerWeight, note: str) -> Row:
    weight = layer.read()
    found = detect(weight, depthwise=layer.depthwise, name=layer.weight)
    return Row(
        layer.name,
        layer.weight,
        layer.layer_type,
        weight.shape,
        found.sparsity,
        found.best,
        tuple(fit for fit in found.near_misses if fit is not found.best),
        layer.storage,
        layer.shared_with,
        _precision(weight),
        note,
    )


def _precision(weight: np.ndarray) -> str:
    """Return the type of the smallest numbers that hold a weight, but for a factor a feature."""
    return BYTES if weight.any() and find_steps(weight) is not None else FLOATS
