"""``ts.quantize_onnx``: an ONNX file with layers in bytes, as an ONNX file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.base.names import matches
from tvm_sparse.errors import InputError
from tvm_sparse.onnx_files.calibration import checked
from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.layers import OnnxLayer
from tvm_sparse.onnx_files.operators import RECURRENT
from tvm_sparse.pruning.layers import LeftOut
from tvm_sparse.pruning.onnx_models.network import OnnxNetwork
from tvm_sparse.quantization.modes import check_options
from tvm_sparse.quantization.onnx_models.measured import losses, read_bytes
from tvm_sparse.quantization.onnx_models.writing import Writer, is_plain_product

_SCALES_OF_FEATURES = 13
"""The first operator set in which DequantizeLinear takes a scale a feature."""


@dataclass(frozen=True)
class QuantizedOnnx:
    """A quantized model: ``layers`` are those in bytes, ``left_float`` has reasons for the others.

    ``losses`` has, with a tolerance, by how much bytes change the output of each layer.
    """

    document: Document
    layers: tuple[str, ...]
    left_float: Mapping[str, str]
    losses: Mapping[str, float]

    def save(self, path: str | Path) -> None:
        """Write the file; weights that were in files beside it are in ``PATH.data`` now.

        Raises
        ------
        InputError
            The place cannot be written, or the model's own weights would be lost.
        """
        self.document.save(path)


def quantize_onnx(
    source: Any,
    batches: Iterable[Any],
    *,
    activations: str = "static",
    ignore: Sequence[str] = (),
    tolerance: float | None = None,
    output: str | Path | None = None,
) -> QuantizedOnnx:
    """Quantize the layers of an ONNX file; nothing else of it changes.

    Inputs of layers go through ``QuantizeLinear`` and ``DequantizeLinear``, which onnxruntime,
    OpenVINO and :func:`tvm_sparse.compile` read as layers of integers: unsigned bytes with a scale
    and a zero point a tensor, from the ranges that calibration data show. Weights become signed
    bytes with a scale a feature and no zero point, so pruned zeros stay zeros. Convolutions, Gemm
    and MatMul with a weight in the file are quantized; recurrent layers stay float.

    Parameters
    ----------
    source
        The path of an ``.onnx`` file, or a ``ModelProto`` that holds all of its weights. One with
        an operator set before 13 is converted to 13.
    batches
        Inputs that are like those in use: each an array, a sequence of arrays in the order of the
        inputs or a mapping by their names. Some hundred samples are usual.
    activations
        ``"static"``, or ``"dynamic"``: products get the scale of their input when they run
        (``DynamicQuantizeLinear`` and ``MatMulInteger``). Convolutions stay static.
    ignore
        Globs over layers that stay float, by the names that :func:`tvm_sparse.pruning.onnx` takes.
    tolerance
        Leave layers float whose output would change by more than this fraction if their input and
        weight were bytes (root of mean squares, on the calibration data).
    output
        A file to write; ``save`` of the result does it later.

    Raises
    ------
    InputError
        onnx or onnxruntime is not installed, the file cannot be read or has no such layer, a name
        is unknown, or calibration data do not fit the model's inputs.
    """
    check_options(activations, tolerance)
    document = Document(source)
    if document.opset < _SCALES_OF_FEATURES:
        document = document.converted(_SCALES_OF_FEATURES)
    network = OnnxNetwork(document)
    left = {n: m.reason for n, m in network.named_modules() if isinstance(m, LeftOut)}
    data = checked(document, batches)
    _check_ignored(network, ignore)
    layers: list[OnnxLayer] = []
    for layer in network.layers.values():
        reason = next(_reasons(layer, ignore), "")
        if reason:
            left[layer.name] = reason
        else:
            layers.append(layer)
    found: dict[str, float] = {}
    dynamic = activations == "dynamic"
    if tolerance is not None:
        found = losses(network, data, layers, dynamic=dynamic)
        for name in [name for name, loss in found.items() if loss > tolerance]:
            left[name] = f"bytes would change its output by {found[name]:.1%}"
    layers = [layer for layer in layers if layer.name not in left]
    _write(network, data, layers, dynamic=dynamic)
    result = QuantizedOnnx(document, tuple(layer.name for layer in layers), left, found)
    if output is not None:
        result.save(output)
    return result


def _check_ignored(network: OnnxNetwork, ignore: Sequence[str]) -> None:
    for glob in ignore:
        if not network.names_of(glob):
            raise InputError("ignore", f"has no layer '{glob}'", "names of layers, or globs")


def _reasons(layer: OnnxLayer, ignore: Sequence[str]) -> Iterator[str]:
    """Yield why ``layer`` stays float."""
    from onnx import TensorProto

    if any(matches(alias, glob) for glob in ignore for alias in layer.aliases):
        yield "in ignore"
    if layer.uses[0].place.sort == RECURRENT:
        yield "a recurrent layer"
    if layer.stored.inner or any(use.inner for use in layer.uses):
        yield "is inside of a branch or loop"
    if layer.stored.tensor.data_type != TensorProto.FLOAT:
        yield "its weight is not float32"
    if any(use.types - {TensorProto.FLOAT} for use in layer.uses):
        yield "its weight is cast to another type"
    if any(use.node.op_type not in ("Conv", "Gemm", "MatMul") for use in layer.uses):
        yield f"an operator of onnxruntime, {layer.uses[0].node.op_type}"


def _write(
    network: OnnxNetwork,
    data: list[dict[str, np.ndarray]],
    layers: Sequence[OnnxLayer],
    *,
    dynamic: bool,
) -> None:
    """Rewrite the uses of ``layers`` in the document of ``network``."""
    plain = [layer for layer in layers if dynamic and is_plain_product(layer)]
    static = [layer for layer in layers if layer not in plain]
    names = list(dict.fromkeys(use.reads for layer in static for use in layer.uses))
    known = read_bytes(network, data, names)
    weights = {
        layer.name: layer.layout.weight(network.document.array(layer.stored.tensor))
        for layer in layers
    }
    writer = Writer(network.document, known, [use for layer in static for use in layer.uses])
    for layer in static:
        for use in layer.uses:
            writer.activation(use)
        writer.weight(layer, weights[layer.name])
    for layer in plain:
        writer.dynamic_product(layer, weights[layer.name])
    writer.drop_unread(layers)
